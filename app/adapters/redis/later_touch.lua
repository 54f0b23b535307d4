-- TOUCH: run a task when nobody has asked for it for a while, but not later than a limit after the first
-- request. Its bucket is the minute in which it is due.
--
-- KEYS  1 states: member → "<minute> <first request, ms> <number of requests>" · 2 arguments · 3 buckets
-- ARGV  1 member · 2 now, ms · 3 delay, ms · 4 limit, ms · 5 arguments · 6 prefix of buckets · 7 their suffix
--       8 '1': leave a pending task alone
-- Returns 1, or 0 if a pending task was left alone.
local now = tonumber(ARGV[2])
local old = redis.call('HGET', KEYS[1], ARGV[1])
local minute, first, touches = string.match(old or '', '^(%d+) (%d+) (%d+)$')
if minute and ARGV[8] == '1' then
  return 0
end
first = math.min(tonumber(first) or now, now)
touches = (tonumber(touches) or 0) + 1
local due = math.min(now + tonumber(ARGV[3]), first + tonumber(ARGV[4]))
local new = string.format('%.0f', math.floor(due / 60000))
if minute and minute ~= new then
  local before = ARGV[6] .. minute .. ARGV[7]
  redis.call('ZREM', before, ARGV[1])
  if redis.call('EXISTS', before) == 0 then
    redis.call('ZREM', KEYS[3], minute)
  end
end
redis.call('ZADD', ARGV[6] .. new .. ARGV[7], string.format('%.0f', due), ARGV[1])
redis.call('ZADD', KEYS[3], new, new)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %.0f %.0f', new, first, touches))
redis.call('HSET', KEYS[2], ARGV[1], ARGV[5])
return 1
