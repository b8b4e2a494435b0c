#!lua flags=allow-oom
-- Give a scheduler's lease back and wake those who wait for it.
-- KEYS[1] lease
-- KEYS[2] touched to wake the others
-- ARGV[1] holder
-- returns 1, or 0 when another has the lease
local held = redis.call('GET', KEYS[1])
if not held or string.match(held, '^(.*) %S+$') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
-- Writing is what wakes; nobody needs to find anything.
redis.call('SET', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[2])
return 1
