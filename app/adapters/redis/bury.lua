-- BURY, prepended to each script that ends tasks permanently: add one to the dead set, which keeps only the
-- newest tasks. Older ones are deleted.
local function bury(dead, id, now, most)
  redis.call('ZADD', dead, now, id)
  local excess = redis.call('ZCARD', dead) - most
  if excess <= 0 then
    return
  end
  for i, old in ipairs(redis.call('ZPOPMIN', dead, excess)) do
    local job = 'rq:job:' .. old
    -- Each id is followed by its score. A task that was queued again isn't dead anymore.
    if i % 2 == 1 and redis.pcall('HGET', job, 'status') == 'failed' then
      redis.call('ZREM', 'rq:failed:' .. (redis.call('HGET', job, 'origin') or ''), old)
      redis.call('DEL', job, 'rq:results:' .. old)
    end
  end
end

