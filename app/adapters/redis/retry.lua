-- RETRY: queue a dead task again, with a clean record; its history stays. A batch of the updater is only
-- deleted: its feeds are still due, so another batch has them or will, and a feed must not be in two.
--
-- KEYS  1 dead set · 2 job hash · 3 result stream
-- ARGV  1 job id · 2 wake channel · 3 name of the queue for a task without a known one
--       4 task name of the updater's batches
-- Returns 1, or 0 if it isn't dead (anymore).
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 or redis.call('HGET', KEYS[2], 'status') ~= 'failed' then
  return 0
end
local row = redis.call('HMGET', KEYS[2], 'home', 'origin', 'description', 'subject', 'since', 'attempts')
if row[4] then
  redis.call('DEL', 'eventr:crashes:' .. row[4])
end
local queue = row[1] or row[2] or ARGV[3]
redis.call('ZREM', 'rq:failed:' .. (row[2] or ''), ARGV[1])
if row[3] == ARGV[4] then
  redis.call('DEL', KEYS[2], KEYS[3])
  return 1
end
local time = redis.call('TIME')
local since = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if last then
  since = math.max(since, tonumber(string.match(last[1], '^%d+')) + 1)
end
-- This run takes over the claims of the last attempt, whose worker may have died.
if row[6] then
  redis.call('HSET', KEYS[2], 'parents', string.format('%s-%s-%s', ARGV[1], row[5] or 0, row[6]))
end
-- The count of attempts continues, because it is part of each attempt's token.
redis.call('HDEL', KEYS[2], 'failures', 'crashes', 'timeouts', 'error', 'home', 'ended_at', 'progress')
redis.call('HSET', KEYS[2], 'status', 'queued', 'origin', queue, 'since', string.format('%.0f', since))
redis.call('PERSIST', KEYS[2])
redis.call('SADD', 'rq:queues', 'rq:queue:' .. queue)
redis.call('RPUSH', 'rq:queue:' .. queue, ARGV[1])
redis.call('PUBLISH', ARGV[2], queue)
return 1
