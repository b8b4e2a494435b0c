#!lua flags=allow-oom
-- Delete a queue with all its jobs. A script, because a full server refuses commands in a MULTI, and deleting a queue
-- frees memory.
-- KEYS[1] queue
-- KEYS[2] set of known queues
-- ARGV[1] name of the queue
-- returns the number of jobs
local jobs = redis.call('LLEN', KEYS[1])
redis.call('UNLINK', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
return jobs
