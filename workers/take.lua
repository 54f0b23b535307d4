-- TAKE: move jobs from the queues, by priority, into the worker's own in-flight list, and start them.
-- Only this script changes 'queued' to 'started', so an id that was pushed twice runs once. Jobs whose next
-- attempt is due are first put back into their queue. Nothing is claimed from a paused queue.
--
-- KEYS  1 in-flight list · 2 hash of workers · 3 event stream · 4 set of paused queues
--       then for each queue: queue list, zset of scheduled jobs
-- ARGV  1 worker · 2 most jobs in all · 3 now, as RQ writes it · 4 events kept
--       5 most jobs of all system queues together
--       then for each queue: its most jobs, '1' for a system queue
-- Crashes are counted over all jobs about the same feed, if that is more than this job's own.
-- Returns nil if this worker isn't registered (anymore): its list was recovered, so it must end.
--         Else per job: id, queue, attempt, since, data, failures, crashes, parents, timeouts. If it claims
--         nothing: the seconds until the first retry in these queues, as text, or an empty text; paused queues
--         don't count.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
  return nil
end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local free = tonumber(ARGV[2])
local out = {}

local function promote(queue, scheduled)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('ZREM', scheduled, id)
    if redis.pcall('HGET', 'rq:job:' .. id, 'status') == 'scheduled' then
      redis.call('HSET', 'rq:job:' .. id, 'status', 'queued')
      redis.call('RPUSH', queue, id)
    end
  end
end

local function start(id, queue)
  local job = 'rq:job:' .. id
  local attempt = redis.call('HINCRBY', job, 'attempts', 1)
  redis.call('HSET', job, 'status', 'started', 'worker_name', ARGV[1], 'started_at', ARGV[3],
    'last_heartbeat', ARGV[3], 'began', string.format('%.0f', now * 1000))
  local row = redis.call('HMGET', job, 'since', 'data', 'failures', 'crashes', 'parents', 'description',
    'subject', 'timeouts')
  local crashes = math.max(tonumber(row[4] or '') or 0,
    row[7] and tonumber(redis.call('GET', 'eventr:crashes:' .. row[7]) or '') or 0)
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[4], '*', 'kind', 'started', 'id', id, 'queue', queue,
    'task', row[6] or '', 'worker', ARGV[1], 'attempt', attempt, 'since', row[1] or '')
  out[#out + 1] = {id, queue, attempt, row[1] or '', row[2] or '', row[3] or '', tostring(crashes),
    row[5] or '', row[8] or ''}
end

local function take(queue, most)
  local taken = 0
  while taken < most do
    local id = redis.call('LMOVE', queue, KEYS[1], 'LEFT', 'RIGHT')
    if not id then break end
    -- pcall: a key of a foreign type is dropped like any other id that isn't queued.
    if redis.pcall('HGET', 'rq:job:' .. id, 'status') == 'queued' then
      start(id, string.sub(queue, 10))
      taken = taken + 1
    else
      redis.call('RPOP', KEYS[1])
    end
  end
  return taken
end

local function next_retry()
  local first
  for i = 6, #KEYS, 2 do
    local at = redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')[2]
    if at and (not first or tonumber(at) < first)
        and redis.call('SISMEMBER', KEYS[4], string.sub(KEYS[i - 1], 10)) == 0 then
      first = tonumber(at)
    end
  end
  return first and tostring(first - now) or ''
end

local system = tonumber(ARGV[5])
for i = 5, #KEYS, 2 do
  local queue = KEYS[i]
  if redis.call('SISMEMBER', KEYS[4], string.sub(queue, 10)) == 0 then
    local most = math.min(free, tonumber(ARGV[i + 1]))
    local of_system = ARGV[i + 2] == '1'
    if of_system then
      most = math.min(most, system)
    end
    promote(queue, KEYS[i + 1])
    local taken = take(queue, most)
    free = free - taken
    if of_system then
      system = system - taken
    end
  end
end
if #out == 0 then
  return {next_retry()}
end
return out
