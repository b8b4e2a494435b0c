#!lua flags=allow-oom
-- Restore the slot of a run after the server lost it, for example in a failover. Not for a dead process.
-- KEYS[1] slots in use
-- KEYS[2] set of groups with slots or held jobs
-- KEYS[3] fenced mark of the process
-- ARGV[1] member: the run
-- ARGV[2] name of the group
-- returns nothing
if redis.call('EXISTS', KEYS[3]) == 1 then return end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'NX', time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
redis.call('SADD', KEYS[2], ARGV[2])
