-- CLAIM: lock one bucket with due tasks, and return them.
--
-- KEYS  for N shards: 1..N buckets · N+1..2N states · 2N+1..3N arguments
-- ARGV  1 now, ms · 2 token · 3 duration of the lock, ms · 4 most tasks · 5 prefix of buckets
--       6 prefix of locks
-- Returns {due}: ms at which the next task is due, -1 if there is none; or {due, shard, minute, members and
-- their due times, states, arguments}. A bucket that another process has locked counts as due in a second.
local now, shards = tonumber(ARGV[1]), #KEYS / 3
local soonest = -1
local function note(due)
  if soonest < 0 or due < soonest then
    soonest = due
  end
end
for shard = 0, shards - 1 do
  local at = 0
  while true do
    local minute = redis.call('ZRANGE', KEYS[shard + 1], at, at)[1]
    if not minute then
      break
    end
    local bucket = ARGV[5] .. minute .. ':' .. shard
    local first = redis.call('ZRANGE', bucket, 0, 0, 'WITHSCORES')
    if not first[1] then
      redis.call('ZREM', KEYS[shard + 1], minute)
    elseif tonumber(first[2]) > now then
      note(tonumber(first[2]))
      break
    elseif redis.call('SET', ARGV[6] .. minute .. ':' .. shard, ARGV[2], 'NX', 'PX', ARGV[3]) then
      local found = redis.call('ZRANGE', bucket, '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[4], 'WITHSCORES')
      local members = {}
      for i = 1, #found, 2 do
        members[#members + 1] = found[i]
      end
      local states = redis.call('HMGET', KEYS[shards + shard + 1], unpack(members))
      local args = redis.call('HMGET', KEYS[2 * shards + shard + 1], unpack(members))
      return {now, shard, minute, found, states, args}
    else
      note(now + 1000)
      at = at + 1
    end
  end
end
return {soonest}
