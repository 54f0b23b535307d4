-- Begin or end a write.
-- ARGV: prefix, epoch for a new log, token (8 bytes), seconds of the hold (0: the write has ended),
-- most names in the log, names …
local prefix, token, seconds = ARGV[1], ARGV[3], tonumber(ARGV[4])
local meta, log, holds = prefix .. 'meta', prefix .. 'log', prefix .. 'holds'
if redis.call('EXISTS', meta) == 0 then
  redis.call('DEL', log)
  redis.call('HSET', meta, 'epoch', ARGV[2], 'number', 0)
end
local expires = seconds > 0 and redis.call('TIME')[1] + seconds
for place = 6, #ARGV do
  redis.call('RPUSH', log, ARGV[place])
  if expires then
    redis.call('ZADD', holds, expires, token .. ARGV[place])
  else
    redis.call('ZREM', holds, token .. ARGV[place])
  end
end
redis.call('HINCRBY', meta, 'number', #ARGV - 5)
redis.call('LTRIM', log, -tonumber(ARGV[5]), -1)
