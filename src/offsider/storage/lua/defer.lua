#!lua flags=allow-oom
-- Raise the score of a member of a sorted set, counted from the server's time. Missing members and later scores stay
-- unchanged.
-- KEYS[1] sorted set
-- ARGV[1] member
-- ARGV[2] delay in seconds
-- returns 1 if the score changed, else 0
local time = redis.call('TIME')
local score = string.format('%.6f', time[1] + time[2] / 1000000 + ARGV[2])
return redis.call('ZADD', KEYS[1], 'XX', 'GT', 'CH', score, ARGV[1])
