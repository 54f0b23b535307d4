-- RECOVER: put back the jobs of a dead worker and unregister it, so that it can't dequeue again. Without a
-- crash, its jobs return to the front of their queues, in order. After a crash, each job that ran is charged
-- with it and moves to the queue of suspects, where it runs alone; at the limit it becomes dead.
--
-- KEYS  1 in-flight list · 2 hash of workers · 3 event stream · 4 dead set
-- ARGV  1 worker · 2 crash ('1' or '0') · 3 reason
--       4 JSON: queue → {crashes until a job is given up, seconds that its failure is kept}; '' for others
--       5 now, as RQ writes it · 6 most jobs in the dead set · 7 queue of suspects · 8 wake channel
--       9 events kept · 10 message of a job that is given up · 11 report of it, encoded for RQ
--       12 seconds that the crashes of one feed are remembered
--       13.. ids of the jobs that ran; none: all that the worker held
-- Returns per job: id, outcome ('returned', 'suspect', 'failed').
local worker, crash, limits = ARGV[1], ARGV[2] == '1', cjson.decode(ARGV[4])
local ran = {}
for i = 13, #ARGV do
  ran[ARGV[i]] = true
end
redis.call('HDEL', KEYS[2], worker)
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local out = {}

local function give_up(id, job, queue, since, ttl)
  redis.call('HSET', job, 'status', 'failed', 'ended_at', ARGV[5], 'error', 'crashed')
  local stream = 'rq:results:' .. id
  local ms = math.max(tonumber(since or '') or 0, math.floor(now * 1000))
  local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  if last then
    ms = math.max(ms, tonumber(string.match(last[1], '^%d+')) + 1)
  end
  redis.call('XADD', stream, 'MAXLEN', '~', 10, string.format('%.0f-1', ms), 'type', 2, 'worker_name', worker,
    'exc_string', ARGV[11], 'error', 'crashed', 'message', ARGV[10])
  redis.call('EXPIRE', stream, ttl)
  redis.call('EXPIRE', job, ttl)
  redis.call('ZREMRANGEBYSCORE', 'rq:failed:' .. queue, '-inf', now)
  redis.call('ZADD', 'rq:failed:' .. queue, now + ttl, id)
  bury(KEYS[4], id, now, tonumber(ARGV[6]))
  return 'failed'
end

local function put_back(id, job, queue)
  redis.call('HSET', job, 'status', 'queued')
  redis.call('LPUSH', 'rq:queue:' .. queue, id)
  redis.call('PUBLISH', ARGV[8], queue)
  return 'returned'
end

-- All jobs about one feed are counted together. This death counts once, however many of them ran.
local charged = {}
local function of_subject(subject)
  if not subject then
    return 0
  end
  local all = 'eventr:crashes:' .. subject
  charged[subject] = charged[subject] or redis.call('INCR', all)
  redis.call('EXPIRE', all, ARGV[12])
  return charged[subject]
end

local function charge(id, job, row)
  local crashes = math.max(redis.call('HINCRBY', job, 'crashes', 1), of_subject(row[8]))
  local limit = limits[row[2] or ''] or limits['']
  local line = cjson.encode({attempt = tonumber(row[3]), at = ARGV[5], worker = worker, error = 'crashed',
    where = ARGV[3]})
  redis.call('HSET', job, 'history', (row[5] or '') .. line .. '\n', 'error', 'crashed')
  if crashes >= limit[1] then
    return give_up(id, job, row[2] or '', row[4], limit[2])
  end
  redis.call('HSETNX', job, 'home', row[2] or '')
  redis.call('HSET', job, 'status', 'queued', 'origin', ARGV[7])
  redis.call('SADD', 'rq:queues', 'rq:queue:' .. ARGV[7])
  redis.call('RPUSH', 'rq:queue:' .. ARGV[7], id)
  redis.call('PUBLISH', ARGV[8], ARGV[7])
  return 'suspect'
end

while true do
  local id = redis.call('RPOP', KEYS[1])
  if not id then break end
  local job = 'rq:job:' .. id
  local row = redis.call('HMGET', job, 'worker_name', 'origin', 'attempts', 'since', 'history', 'status', 'description',
    'subject')
  if row[1] == worker and row[6] == 'started' then
    local guilty = crash and (#ARGV < 13 or ran[id])
    local what = guilty and charge(id, job, row) or put_back(id, job, row[2] or '')
    redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[9], '*', 'kind', what, 'id', id, 'queue', row[2] or '',
      'task', row[7] or '', 'worker', worker, 'attempt', row[3] or '', 'error', guilty and 'crashed' or '')
    out[#out + 1] = {id, what}
  end
end
return out
