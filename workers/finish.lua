-- FINISH: end one attempt of a job, or return it, if the job is still this worker's: the id must be in its
-- in-flight list, and run and attempt must be the current ones. Otherwise nothing changes, so a zombie worker
-- is harmless. Status, result, registry and event change in one step.
--
-- KEYS  1 job hash · 2 in-flight list · 3 result stream · 4 event stream · 5 dead set
-- ARGV  1 job id · 2 attempt · 3 kind: finished, failed, retry or returned · 4 now, as RQ writes it
--       5 error code · 6 message · 7 result or report, encoded for RQ · 8 seconds: ttl, or delay of a retry
--       9 where it failed, for the history · 10 worker · 11 execution · 12 events kept · 13 wake channel
--       14 most jobs in the dead set · 15 stamp of the run: when an ended job is queued again, its attempts
--       are counted anew
-- Returns 1, or 0 if the job wasn't this worker's.
local id, kind, seconds = ARGV[1], ARGV[3], tonumber(ARGV[8])
local row = redis.call('HMGET', KEYS[1], 'attempts', 'origin', 'since', 'history', 'description', 'began')
local since = tonumber(string.match(row[3] or '', '^%d+$') or 0)
if row[1] ~= ARGV[2] or since ~= tonumber(ARGV[15]) or redis.call('LREM', KEYS[2], 1, id) == 0 then
  return 0
end
local queue = row[2] or ''
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local event = {'kind', kind, 'id', id, 'queue', queue, 'task', row[5] or '', 'worker', ARGV[10],
  'attempt', ARGV[2], 'error', ARGV[5],
  'ms', row[6] and string.format('%.0f', math.max(0, now * 1000 - row[6])) or ''}

local function result(...)
  -- Not before the run's own stamp and after all earlier results, even if the clock was set back.
  local ms = math.max(since, math.floor(now * 1000))
  local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
  if last then
    ms = math.max(ms, tonumber(string.match(last[1], '^%d+')) + 1)
  end
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10, string.format('%.0f-1', ms), 'worker_name', ARGV[10],
    'execution_id', ARGV[11], ...)
  redis.call('EXPIRE', KEYS[3], seconds)
  redis.call('EXPIRE', KEYS[1], seconds)
  local registry = 'rq:' .. kind .. ':' .. queue
  redis.call('ZREMRANGEBYSCORE', registry, '-inf', now)
  redis.call('ZADD', registry, now + seconds, id)
  -- Small results are part of the event, which saves readers of the stream another request.
  if kind == 'finished' and #ARGV[7] <= 512 then
    for _, part in ipairs({'stamp', string.format('%.0f', ms), 'value', ARGV[7]}) do
      event[#event + 1] = part
    end
  end
end

if ARGV[9] ~= '' then
  local line = cjson.encode({attempt = tonumber(ARGV[2]), at = ARGV[4], worker = ARGV[10], error = ARGV[5],
    where = ARGV[9]})
  redis.call('HSET', KEYS[1], 'history', (row[4] or '') .. line .. '\n')
end
if kind == 'finished' then
  redis.call('HSET', KEYS[1], 'status', 'finished', 'ended_at', ARGV[4])
  redis.call('HDEL', KEYS[1], 'error')
  result('type', 1, 'return_value', ARGV[7])
elseif kind == 'failed' then
  redis.call('HSET', KEYS[1], 'status', 'failed', 'ended_at', ARGV[4], 'error', ARGV[5])
  redis.call('HINCRBY', KEYS[1], 'failures', 1)
  result('type', 2, 'exc_string', ARGV[7], 'error', ARGV[5], 'message', ARGV[6])
  bury(KEYS[5], id, now, tonumber(ARGV[14]))
elseif kind == 'retry' then
  redis.call('HSET', KEYS[1], 'status', 'scheduled', 'error', ARGV[5])
  redis.call('HINCRBY', KEYS[1], 'failures', 1)
  if ARGV[5] == 'timeout' then
    redis.call('HINCRBY', KEYS[1], 'timeouts', 1)
  end
  redis.call('ZADD', 'rq:scheduled:' .. queue, now + seconds, id)
  -- Idle workers sleep until the next retry that they know of.
  redis.call('PUBLISH', ARGV[13], queue)
else
  redis.call('HSET', KEYS[1], 'status', 'queued')
  redis.call('LPUSH', 'rq:queue:' .. queue, id)
  redis.call('PUBLISH', ARGV[13], queue)
end
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[12], '*', unpack(event))
return 1
