-- COUNT: acknowledge events and add their sums to hours and minutes, if none of them is counted yet.
-- Another manager may have taken over and counted the events of a manager that was frozen after reading them.
-- Then nothing is added, and the reply says which events still have to be counted.
--
-- KEYS  1 event stream · 2 hash of the sums since Redis was empty
-- ARGV  1 consumer group · 2 prefix of the hours' keys · 3 seconds that an hour is kept
--       4 prefix of the minutes' keys · 5 seconds that minutes are kept
--       6 JSON: [[hour, {counter: number}, {minute:counter: number}], …] · 7.. stream ids
-- Returns the ids whose counters aren't added yet: none, or the acknowledged ids of a partial set.
local mine = {}
for i = 7, #ARGV do
  if redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) == 1 then
    mine[#mine + 1] = ARGV[i]
  end
end
if #mine < #ARGV - 6 then
  return mine
end
local function add(key, counters, seconds, total)
  for counter, number in pairs(counters) do
    redis.call('HINCRBY', key, counter, number)
    if total then
      redis.call('HINCRBY', total, counter, number)
    end
  end
  redis.call('EXPIRE', key, seconds)
end
for _, row in ipairs(cjson.decode(ARGV[6])) do
  local hour = string.format('%.0f', row[1])
  add(ARGV[2] .. hour, row[2], ARGV[3], KEYS[2])
  add(ARGV[4] .. hour, row[3], ARGV[5])
end
return {}
