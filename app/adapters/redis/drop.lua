-- DROP: delete a dead task.
--
-- KEYS  1 dead set · 2 job hash · 3 result stream
-- ARGV  1 job id
-- Returns 1, or 0 if it isn't dead (anymore).
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 or redis.call('HGET', KEYS[2], 'status') ~= 'failed' then
  return 0
end
redis.call('ZREM', 'rq:failed:' .. (redis.call('HGET', KEYS[2], 'origin') or ''), ARGV[1])
redis.call('DEL', KEYS[2], KEYS[3])
return 1
