#!lua flags=allow-oom
-- Move a member of a sorted set into the dead set, and trim the dead set.
-- KEYS[1] sorted set
-- KEYS[2] dead set
-- ARGV[1] member
-- ARGV[2] retention of dead jobs in seconds
-- ARGV[3] size limit of the dead set
-- ARGV[4] 1 if the member must be due by the server's clock, else 0
-- ARGV[5] payload to store
-- returns 1, or 0 if the member is missing or not due
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then return 0 end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
if ARGV[4] == '1' and tonumber(score) > now then return 0 end
redis.call('ZADD', KEYS[2], string.format('%.6f', now), ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now - ARGV[2]))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -ARGV[3])
-- A member of the dead set itself stays there, with a new time.
if KEYS[1] ~= KEYS[2] or ARGV[1] ~= ARGV[5] then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1
