#!lua flags=allow-oom
-- Remove a member of a sorted set if it is still there and still due by the server's clock.
-- KEYS[1] sorted set
-- ARGV[1] member
-- returns 1, or 0 if the member is missing or not due
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local time = redis.call('TIME')
if not score or tonumber(score) > time[1] + time[2] / 1000000 then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
