#!lua flags=allow-oom
-- Remove an empty queue from the set of queues. A script, because a push between check and removal would put a job
-- into an unknown queue.
-- KEYS[1] queue
-- KEYS[2] set of known queues
-- ARGV[1] name of the queue
-- returns 1, or 0 if it contains jobs or is not in the set
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
return redis.call('SREM', KEYS[2], ARGV[1])
