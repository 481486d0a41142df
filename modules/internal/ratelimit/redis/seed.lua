-- Gives a rate the moments of the requests that one node has counted, in order. What is there already is not there
-- twice, however often and by however many nodes it is given.
-- ARGV[1] '' or the moment, as in acquire.lua; then the moments
local now
if ARGV[1] ~= '' then
  now = tonumber(ARGV[1])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local there, all, more = {}, {}, false
for _, at in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if tonumber(at) > now + 1000000 then
    more = true -- the clock was set back: who has counted it gives it by the new one
  else
    there[at] = (there[at] or 0) + 1
    all[#all + 1] = tonumber(at)
  end
end
for n = 2, #ARGV do
  local left = there[ARGV[n]] or 0
  if left > 0 then
    there[ARGV[n]] = left - 1
  elseif tonumber(ARGV[n]) > now - 60000000 then
    more = true
    -- As it is, so that it is the same when it is given once more; a node reckons a little wrong, but not by a second.
    all[#all + 1] = math.min(tonumber(ARGV[n]), now + 1000000)
  end
end
if more then
  table.sort(all)
  redis.call('DEL', KEYS[1])
  for n = 1, #all do
    redis.call('RPUSH', KEYS[1], string.format('%.0f', all[n]))
  end
  redis.call('PEXPIRE', KEYS[1], 75000)
end
return 0
