-- TAKE TOKENS: how many of the wanted requests may go to each host now, and when the others may retry.
-- A bucket is one number, the time at which all tokens taken so far are refilled (GCRA). It may be as far in
-- the future as a burst lasts. Few calls per host, because each poll without news pays for them too.
--
-- KEYS  for each host: its pause, its bucket
-- ARGV  1 JSON, flat, for each host: requests wanted · ms per token, 0: no limit · tokens of a burst ·
--         mode: 0: a pause stops all, 1: one request per pause passes, 2: a pause stops none
-- Returns nil if all requests may go, else for each host: requests granted, ms until the first of the others
-- may go; each further request may go one token later.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local asked = cjson.decode(ARGV[1])
local known = redis.call('MGET', unpack(KEYS))
local left = {}  -- new buckets of groups with more than one of these hosts
local out, all = {}, true

-- parses "a b c", "a b" or "a", where what is missing is 0
local function numbers(text)
  if not text then
    return 0, 0, 0
  end
  local a, b, c = string.match(text, '^(%S+) ?(%S*) ?(%S*)$')
  return tonumber(a), tonumber(b) or 0, tonumber(c) or 0
end

for i = 1, #KEYS, 2 do
  local at = (i - 1) / 2 * 4
  local wanted, step, burst = asked[at + 1], asked[at + 2], asked[at + 3]
  local granted, wait = wanted, 0
  local mode = asked[at + 4]
  local stopped, promised, passed = numbers(known[i])
  if stopped > now and mode < 2 then
    local from = math.max(stopped, promised)
    granted, wait = 0, from - now
    if mode == 1 and passed == 0 then
      granted, passed = 1, 1
    end
    local text = string.format('%.0f %.3f %d', stopped, from + (wanted - granted) * step, passed)
    redis.call('SET', KEYS[i], text, 'KEEPTTL')
  elseif step > 0 then
    local bucket = KEYS[i + 1]
    local tat, ahead = numbers(left[bucket] or known[i + 1])
    tat = math.max(now, tat)
    granted = math.max(0, math.min(wanted, math.floor(burst - (tat - now) / step + 0.001)))
    tat = tat + granted * step
    if granted < wanted then
      local from = math.max(ahead, tat - (burst - 1) * step)
      wait = from - now
      ahead = from + (wanted - granted) * step
    end
    local text = ahead > now and string.format('%.3f %.3f', tat, ahead) or string.format('%.3f', tat)
    left[bucket] = text
    redis.call('SET', bucket, text, 'PX', math.ceil(math.max(tat, ahead) - now))
  end
  all = all and granted == wanted
  out[#out + 1] = {granted, math.ceil(wait)}
end
return not all and out or nil
