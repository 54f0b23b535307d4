-- PUT BACK UNKNOWN: after a TAKE whose reply was lost, put back the jobs that this worker holds unknowingly.
--
-- KEYS  1 in-flight list · 2 event stream
-- ARGV  1 worker · 2 events kept
--       3.. tokens of the attempts that the worker knows; of a job that has ended and was queued again, this
--       may be the previous run
-- Returns the number of jobs put back to the front of their queues.
local known = {}
for i = 3, #ARGV do
  known[ARGV[i]] = true
end
local returned = 0
local held = redis.call('LRANGE', KEYS[1], 0, -1)
for i = #held, 1, -1 do
  local id, job = held[i], 'rq:job:' .. held[i]
  local row = redis.pcall('HMGET', job, 'origin', 'since', 'attempts', 'description')
  local since = string.match(row[2] or '', '^%d+$') or '0'
  if not known[id .. '-' .. since .. '-' .. (row[3] or '')] then
    redis.call('LREM', KEYS[1], 1, id)
    if row[1] then
      redis.call('HSET', job, 'status', 'queued')
      redis.call('LPUSH', 'rq:queue:' .. row[1], id)
      -- The event stream has its start, so record its end before it starts again.
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'kind', 'returned', 'id', id, 'queue', row[1],
        'task', row[4] or '', 'worker', ARGV[1], 'attempt', row[3] or '', 'error', '')
      returned = returned + 1
    end
  end
end
return returned
