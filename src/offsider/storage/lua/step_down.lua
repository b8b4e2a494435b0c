#!lua flags=allow-oom
-- Release the leader's lease, if the caller is the leader.
-- KEYS[1] leader
-- ARGV[1] identity of the process
-- returns 1, or 0 if it is not the leader
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
