-- One question about up to four subjects, whole: it takes one of each, or nothing.
--
-- KEYS    the subjects', and behind them the beat's where ARGV[2] is not ''
-- ARGV[1] '' for the server's clock; in tests the moment, in microseconds
-- ARGV[2] which generation of the data is known
-- ARGV[3] the least that the beat has to be: an older one is that of an older copy
-- ARGV[4] 't' to take, 'c' to check only
-- ARGV[5 ...] for each subject its limit, and '' for a rate or the member to add to a semaphore
-- then    members that leave the semaphore first
--
-- Returns {0, moment} when all have room, {1, index of the first without, seconds until all have room}, or
-- {2, moment, beat} when what was counted is lost, or the clock was set.
--
-- A rate is a list of the moments of its requests, the oldest first. A semaphore is a sorted set of permits by the
-- moment at which their leases lapse.
local now
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local window, lease = 60000000, 30000000
local count = #KEYS
if ARGV[2] ~= '' then
  local at = redis.call('HMGET', KEYS[count], 'generation', 'beat')
  local beat = tonumber(at[2] or 0)
  count = count - 1
  if at[1] ~= ARGV[2] or beat < tonumber(ARGV[3]) or beat < now - 5000000 or beat > now + 1000000 then
    return {2, now, beat}
  end
end

-- trim lets go of what is over.
local function trim(key, over)
  local drop, n, chunk = 0
  repeat
    chunk = redis.call('LRANGE', key, drop, drop + 63)
    n = 1
    while n <= #chunk and tonumber(chunk[n]) <= over do
      n = n + 1
    end
    drop = drop + n - 1
  until n <= #chunk or #chunk == 0
  if drop > 0 then
    redis.call('LTRIM', key, drop, -1)
  end
end

local first, wait, moment, lasts = nil, 0, now, {}
for i = 1, count do
  local key, limit, member = KEYS[i], tonumber(ARGV[3 + 2 * i]), ARGV[4 + 2 * i]
  local seconds = 0
  if member ~= '' then
    for r = 5 + 2 * count, #ARGV do
      redis.call('ZREM', key, ARGV[r])
    end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    if limit > 0 and redis.call('ZCARD', key) >= limit then
      seconds = 1
    end
  else
    local last = tonumber(redis.call('LINDEX', key, -1) or 0)
    if last > now + 1000000 then
      -- The clock was set back. Each node gives what it has counted once more, by the new one; where that is not found out
      -- with a question, what is in the future counts from now on.
      local all, none = redis.call('LRANGE', key, 0, -1), ARGV[2] ~= ''
      redis.call('DEL', key)
      last = 0
      for n = 1, #all do
        local at = tonumber(all[n])
        if at <= now or not none then
          last = math.min(at, now)
          redis.call('RPUSH', key, string.format('%.0f', last))
        end
      end
      redis.call('PEXPIRE', key, 75000)
    end
    lasts[i] = last
    if last > now - window then
      -- There is room unless the one that is `limit` from the end still counts.
      local at = tonumber(redis.call('LINDEX', key, -limit) or 0)
      if at > now - window then
        seconds = math.ceil((at + window - now) / 1000000)
      end
      if last > moment then
        moment = last
      end
    end
  end
  if seconds > 0 then
    first = first or i
    if seconds > wait then
      wait = seconds
    end
  end
end
if first then
  return {1, first - 1, wait}
end
if ARGV[4] == 't' then
  for i = 1, count do
    local key, member = KEYS[i], ARGV[4 + 2 * i]
    if member ~= '' then
      redis.call('ZADD', key, now + lease, member)
      redis.call('PEXPIRE', key, 31000)
    else
      local last = lasts[i]
      if last > 0 and last <= now - window then
        redis.call('DEL', key)
        last = 0
      end
      redis.call('RPUSH', key, string.format('%.0f', moment))
      -- Not with each: a key lives for 75 s from the first request of each 10 s, and what is over goes once a second.
      if math.floor(last / 10000000) ~= math.floor(moment / 10000000) then
        redis.call('PEXPIRE', key, 75000)
      end
      if last > 0 and math.floor(last / 1000000) ~= math.floor(moment / 1000000) then
        trim(key, now - window)
      end
    end
  end
end
return {0, moment}
