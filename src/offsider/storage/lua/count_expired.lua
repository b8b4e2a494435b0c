#!lua flags=allow-oom
-- Count an expired job.
-- KEYS[1] hash: class to count
-- ARGV[1] class of the job
-- returns the count
return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
