#!lua flags=allow-oom
-- Lead no more, if it is the caller who leads.
-- KEYS[1] leader
-- ARGV[1] identity of the process
-- returns 1, or 0 when it did not lead
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
