-- Renews leases of permits of a semaphore, and takes those again that have lapsed.
-- ARGV[1] '' or the moment, as in acquire.lua; then the members
local now
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
for n = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now + 30000000, ARGV[n])
end
-- What lapses later than any lease that was given now was given by a clock that was set.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + 30000000), '+inf')
redis.call('PEXPIRE', KEYS[1], 31000)
return 0
