#!lua flags=allow-oom
-- Give a member of a sorted set another score, if it is still there; on a full server as well.
-- KEYS[1] sorted set
-- ARGV[1] member
-- ARGV[2] score
-- returns 1, or 0 when the member is gone
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
