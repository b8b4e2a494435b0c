#!lua flags=allow-oom
-- Delete an expired switch with its count. A script, because the switch may be set again after it was read.
-- KEYS[1] switches by class
-- KEYS[2] jobs that they acted on, by class
-- ARGV[1] class
-- ARGV[2] the switch as it was read
-- returns 1, or 0 if it was changed or deleted
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
