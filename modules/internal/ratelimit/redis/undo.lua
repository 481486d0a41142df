-- Takes back what acquire.lua has taken of these subjects, where it was refused by others on another node of a Cluster.
-- ARGV[1] the moment, then for each subject '' for a rate or the member of a semaphore
for i = 1, #KEYS do
  if ARGV[1 + i] ~= '' then
    redis.call('ZREM', KEYS[i], ARGV[1 + i])
  else
    redis.call('LREM', KEYS[i], -1, ARGV[1])
  end
end
return 0
