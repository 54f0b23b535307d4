-- ENQUEUE: queue a job unless the same one is queued or running; the status field is the lock.
-- Safe to repeat: a client that lost the reply may send it again.
--
-- KEYS  1 job hash · 2 queue list · 3 result stream · 4 set of queue keys · 5 set of draining queues
--       6 dead set
-- ARGV  1 job id · 2 queue name · 3 front ('1': before all others) · 4 wake channel
--       5.. the fields of the job hash, alternating name and value
-- Returns {fresh, since}; fresh is 1, 0 for a job that already existed, -1 if the queue accepts no new jobs
-- (then nothing has changed). since is the earliest stamp (ms) of a result of this run. It is after the last
-- result of an earlier run, so a waiter that reads from it never sees a stale result.
local status = redis.call('HGET', KEYS[1], 'status')
local time = redis.call('TIME')
local since = time[1] * 1000 + math.floor(time[2] / 1000)
if status == 'queued' or status == 'started' or status == 'scheduled' or status == 'deferred' then
  return {0, tonumber(redis.call('HGET', KEYS[1], 'since') or since)}
end
if redis.call('SISMEMBER', KEYS[5], ARGV[2]) == 1 then
  return {-1, 0}
end
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
if last then
  since = math.max(since, tonumber(string.match(last[1], '^%d+')) + 1)
end
local origin = redis.call('HGET', KEYS[1], 'origin')
if origin then
  redis.call('ZREM', 'rq:failed:' .. origin, ARGV[1])
  redis.call('ZREM', 'rq:finished:' .. origin, ARGV[1])
end
redis.call('ZREM', KEYS[6], ARGV[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'status', 'queued', 'since', string.format('%.0f', since), unpack(ARGV, 5))
redis.call('SADD', KEYS[4], KEYS[2])
local waiting
if ARGV[3] == '1' then
  waiting = redis.call('LPUSH', KEYS[2], ARGV[1])
else
  waiting = redis.call('RPUSH', KEYS[2], ARGV[1])
end
-- Only the first of many jobs wakes the workers: awake workers continue until the queue is empty.
if waiting == 1 then
  redis.call('PUBLISH', ARGV[4], ARGV[2])
end
return {1, since}
