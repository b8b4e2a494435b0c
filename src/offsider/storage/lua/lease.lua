#!lua flags=allow-oom
-- Acquire or renew a lease.
-- KEYS[1] lease
-- ARGV[1] holder
-- ARGV[2] expiry in milliseconds
-- returns 1 if the holder has the lease, else 0
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
