#!lua flags=allow-oom
-- Free the slot of a run, together with the outcome of its job.
-- KEYS[1] slots in use
-- KEYS[2] list of held jobs
-- ARGV[1] member: the run
-- returns the number of held jobs of the class
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('LLEN', KEYS[2])
