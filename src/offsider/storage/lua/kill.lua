#!lua flags=allow-oom
-- Move a member of a sorted set into the dead set as it is, and trim that.
-- KEYS[1] sorted set
-- KEYS[2] dead set
-- ARGV[1] member
-- ARGV[2] seconds that a dead job is kept
-- ARGV[3] cap of the dead set
-- ARGV[4] 1 when the member has to be due by the server's clock, 0 when that does not matter
-- returns 1, or 0 when the member is gone or not due
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then return 0 end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
if ARGV[4] == '1' and tonumber(score) > now then return 0 end
redis.call('ZADD', KEYS[2], string.format('%.6f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now - ARGV[2]))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -ARGV[3])
-- A dead job stays where it is, with a new time.
if KEYS[1] ~= KEYS[2] then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1
