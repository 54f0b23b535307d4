-- COUNT: acknowledge events and add their sums to the hours, if all of them are still to be counted.
-- A manager that was frozen after it read may find that another one took over its events and counted them:
-- then nothing is added, and it is told for which events that is still to be done.
--
-- KEYS  1 event stream · 2 hash of the sums since Redis was empty
-- ARGV  1 consumer group · 2 prefix of the hours' keys · 3 seconds that an hour is kept
--       4 JSON: [[hour, {counter: number}], …] · 5.. stream ids
-- Returns the ids whose counters are not added yet: none, or what was acknowledged of a part.
local mine = {}
for i = 5, #ARGV do
  if redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) == 1 then
    mine[#mine + 1] = ARGV[i]
  end
end
if #mine < #ARGV - 4 then
  return mine
end
for _, hour in ipairs(cjson.decode(ARGV[4])) do
  local key = ARGV[2] .. string.format('%.0f', hour[1])
  for counter, number in pairs(hour[2]) do
    redis.call('HINCRBY', key, counter, number)
    redis.call('HINCRBY', KEYS[2], counter, number)
  end
  redis.call('EXPIRE', key, ARGV[3])
end
return {}
