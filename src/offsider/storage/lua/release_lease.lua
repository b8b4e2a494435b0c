#!lua flags=allow-oom
-- Release a lease, if the caller holds it.
-- KEYS[1] lease
-- ARGV[1] holder
-- returns 1, or 0 if it does not
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
