-- PROGRESS: store a running job's report, if this attempt is still running.
--
-- KEYS  1 job hash · 2 event stream
-- ARGV  1 job id · 2 attempt · 3 report as JSON · 4 events kept · 5 worker
local row = redis.call('HMGET', KEYS[1], 'attempts', 'status', 'origin', 'description')
if row[1] ~= ARGV[2] or row[2] ~= 'started' then
  return 0
end
redis.call('HSET', KEYS[1], 'progress', ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'kind', 'progress', 'id', ARGV[1],
  'queue', row[3] or '', 'task', row[4] or '', 'worker', ARGV[5], 'data', ARGV[3])
return 1
