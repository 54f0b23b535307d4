-- REQUEUE ORPHAN: queue a job again if its status is started, queued or scheduled but no list holds it.
--
-- KEYS  1 job hash · 2 event stream
-- ARGV  1 job id · 2 wake channel · 3 events kept
-- Returns its old status ('started', 'queued', 'scheduled') if the job was an orphan, else nil.
local row = redis.call('HMGET', KEYS[1], 'status', 'worker_name', 'origin', 'description', 'attempts')
local status, queue = row[1], row[3]
if not queue then
  return nil
end
local held
if status == 'started' then
  held = redis.call('LPOS', 'eventr:inflight:' .. (row[2] or ''), ARGV[1])
elseif status == 'queued' then
  held = redis.call('LPOS', 'rq:queue:' .. queue, ARGV[1])
elseif status == 'scheduled' then
  held = redis.call('ZSCORE', 'rq:scheduled:' .. queue, ARGV[1])
else
  return nil
end
if held then
  return nil
end
redis.call('HSET', KEYS[1], 'status', 'queued')
redis.call('SADD', 'rq:queues', 'rq:queue:' .. queue)
redis.call('LPUSH', 'rq:queue:' .. queue, ARGV[1])
redis.call('PUBLISH', ARGV[2], queue)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'kind', 'returned', 'id', ARGV[1], 'queue', queue,
  'task', row[4] or '', 'worker', row[2] or '', 'attempt', row[5] or '', 'error', '')
return status
