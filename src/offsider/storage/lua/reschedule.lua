#!lua flags=allow-oom
-- Change the score of a member of a sorted set, if it is still there, also on a full server.
-- KEYS[1] sorted set
-- ARGV[1] member
-- ARGV[2] score
-- returns 1, or 0 if the member is missing
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
