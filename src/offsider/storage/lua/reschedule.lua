#!lua flags=allow-oom
-- Set the score of a member of a sorted set.
-- KEYS[1] sorted set
-- ARGV[1] member
-- ARGV[2] score
-- returns 1, or 0 if it is missing
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
