-- ARGV: prefix, epoch for a new log, the reader's epoch ('': none), the reader's position
-- Returns the epoch, the position of the end, 1 if the log goes back so far, the names since, held names.
local prefix = ARGV[1]
local meta, log, holds = prefix .. 'meta', prefix .. 'log', prefix .. 'holds'
-- Changes nothing if there is a log, but fails where writers fail: on a replica, or when memory or disk is full.
if redis.call('HSETNX', meta, 'epoch', ARGV[2]) == 1 then
  redis.call('DEL', log)
  redis.call('HSET', meta, 'number', 0)
end
local found = redis.call('HMGET', meta, 'epoch', 'number')
local epoch, number = found[1], tonumber(found[2])
local held = {}
if redis.call('EXISTS', holds) == 1 then
  redis.call('ZREMRANGEBYSCORE', holds, '-inf', redis.call('TIME')[1])
  for place, member in ipairs(redis.call('ZRANGE', holds, 0, -1)) do
    held[place] = member:sub(9)
  end
end
local missing = epoch == ARGV[3] and number - tonumber(ARGV[4]) or -1
if missing < 0 or missing > redis.call('LLEN', log) then return {epoch, number, 0, {}, held} end
return {epoch, number, 1, missing > 0 and redis.call('LRANGE', log, -missing, -1) or {}, held}
