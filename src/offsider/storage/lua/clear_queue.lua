#!lua flags=allow-oom
-- Delete a queue with all its jobs. A script, because a full server refuses whatever stands in a MULTI,
-- and a queue that is deleted is what makes room there.
-- KEYS[1] queue
-- KEYS[2] set of known queues
-- ARGV[1] name of the queue
-- returns how many jobs there were
local jobs = redis.call('LLEN', KEYS[1])
redis.call('UNLINK', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
return jobs
