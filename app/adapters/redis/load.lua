-- LOAD: the waiting jobs of queues.
--
-- KEYS  1 set of paused queues · 2 set of draining queues
-- ARGV  names of queues
-- Returns per queue: name, jobs that wait or whose retry is due, seconds that the first has waited (as
-- text), paused, draining, jobs with a retry, due or not.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local out = {}
for _, queue in ipairs(ARGV) do
  local waiting, oldest = redis.call('LLEN', 'rq:queue:' .. queue), 0
  local head = redis.call('LINDEX', 'rq:queue:' .. queue, 0)
  local since = head and redis.pcall('HGET', 'rq:job:' .. head, 'since')
  if type(since) == 'string' then
    oldest = now - (tonumber(since) or now * 1000) / 1000
  end
  local scheduled = 'rq:scheduled:' .. queue
  local due = redis.call('ZCOUNT', scheduled, '-inf', now)
  if due > 0 then
    oldest = math.max(oldest, now - redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2])
  end
  out[#out + 1] = {queue, waiting + due, tostring(math.max(0, oldest)),
    redis.call('SISMEMBER', KEYS[1], queue), redis.call('SISMEMBER', KEYS[2], queue),
    redis.call('ZCOUNT', scheduled, '-inf', '+inf')}
end
return out
