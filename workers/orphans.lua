-- ORPHANS: after a TAKE whose reply was lost, put back what this worker holds without knowing of it.
--
-- KEYS  1 in-flight list
-- ARGV  ids that the worker knows
-- Returns the number of jobs put back to the front of their queues.
local known = {}
for _, id in ipairs(ARGV) do
  known[id] = true
end
local returned = 0
local held = redis.call('LRANGE', KEYS[1], 0, -1)
for i = #held, 1, -1 do
  local id, job = held[i], 'rq:job:' .. held[i]
  if not known[id] then
    redis.call('LREM', KEYS[1], 1, id)
    local origin = redis.pcall('HGET', job, 'origin')
    if type(origin) == 'string' then
      redis.call('HSET', job, 'status', 'queued')
      redis.call('LPUSH', 'rq:queue:' .. origin, id)
      returned = returned + 1
    end
  end
end
return returned
