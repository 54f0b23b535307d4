-- DONE: remove the tasks of a claimed bucket that were queued, and release the bucket. A task for which a
-- request came in the meantime stays, because the queued job may have read what was there before it.
--
-- KEYS  1 lock · 2 bucket · 3 states · 4 arguments · 5 buckets
-- ARGV  1 token · 2 minute · 3 now, ms · 4 prefix of buckets · 5 their suffix
--       6.. triples: member · state at the claim · ms by which to postpone it, '0': remove it
-- Returns the number of tasks that stay, -1 if another process holds the bucket: then nothing has changed.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
local stay = 0
for i = 6, #ARGV, 3 do
  local member, later = ARGV[i], tonumber(ARGV[i + 2])
  local state = redis.call('HGET', KEYS[3], member) or ''
  local minute, _, touches = string.match(state, '^(%d+) (%d+) (%d+)$')
  if state ~= ARGV[i + 1] then
    stay = stay + 1
    -- Its time limit begins anew: the job of the earlier requests is queued.
    if minute then
      redis.call('HSET', KEYS[3], member, string.format('%s %s %s', minute, ARGV[3], touches))
    end
  else
    redis.call('ZREM', KEYS[2], member)
    if later > 0 and minute then
      stay = stay + 1
      local due = tonumber(ARGV[3]) + later
      local new = string.format('%.0f', math.floor(due / 60000))
      redis.call('ZADD', ARGV[4] .. new .. ARGV[5], string.format('%.0f', due), member)
      redis.call('ZADD', KEYS[5], new, new)
      redis.call('HSET', KEYS[3], member, string.format('%s %s %s', new, ARGV[3], touches))
    else
      redis.call('HDEL', KEYS[3], member)
      redis.call('HDEL', KEYS[4], member)
    end
  end
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[5], ARGV[2])
end
redis.call('DEL', KEYS[1])
return stay
