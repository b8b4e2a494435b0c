#!lua flags=allow-oom
-- Release the lease of a scheduler and wake waiting schedulers.
-- KEYS[1] lease
-- KEYS[2] written to wake the other schedulers
-- ARGV[1] holder
-- returns 1, or 0 if another scheduler has the lease
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
-- The write itself wakes the watchers; no value is needed.
redis.call('SET', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[2])
return 1
