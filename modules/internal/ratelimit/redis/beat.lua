-- A node lives.
-- KEYS[1] the moment of the last beat of any node, and the generation of the data: the moment since which beats have
--         followed each other
-- KEYS[2] the nodes, by the moment at which they are given up
-- ARGV[1] '' or the moment, as in acquire.lua; ARGV[2] the node; ARGV[3] '' when it leaves
-- ARGV[4] the least that the beat has to be
-- Returns {moment, the beat before, nodes, the generation}. It is a new one where the data is not what nodes know of: it
-- was lost, an older copy is back, the clock was set, or no node has lived for a while. So each of them notices.
local now
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local at = redis.call('HMGET', KEYS[1], 'generation', 'beat')
local before, generation = tonumber(at[2] or 0), tonumber(at[1] or 0)
if before < tonumber(ARGV[4]) or before < now - 5000000 or before > now + 1000000 then
  generation = now
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 11000000, '+inf')
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[2], ARGV[2])
else
  redis.call('HSET', KEYS[1], 'generation', string.format('%.0f', generation), 'beat', string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[1], 3600000)
  redis.call('ZADD', KEYS[2], now + 10000000, ARGV[2])
  redis.call('PEXPIRE', KEYS[2], 11000)
end
return {now, before, redis.call('ZCARD', KEYS[2]), generation}
