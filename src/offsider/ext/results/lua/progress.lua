#!lua flags=allow-oom
-- Write the progress of a run, unless the job has ended or runs elsewhere by now.
-- KEYS[1] state of the job
-- ARGV[1] process and number of the run
-- ARGV[2] progress
-- returns 1 if it was written
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'progress', ARGV[2])
return 1
