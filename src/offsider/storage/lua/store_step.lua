#!lua flags=allow-oom
-- Store the result of a step. A script, because only the owner of the job may: another process may run it again by now.
-- KEYS[1] steps of the job
-- KEYS[2] fenced mark of the owner
-- KEYS[3] private list
-- ARGV[1] payload as it was claimed; empty for a job that is in no private list
-- ARGV[2] expiry in seconds
-- ARGV[3] name of the step
-- ARGV[4] result
-- returns 1, or 0 if another process owns the job
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if ARGV[1] ~= '' and not redis.call('LPOS', KEYS[3], ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
