#!lua flags=allow-oom
-- Pause queues. A script, because a full server refuses SADD, and operators must be able to pause queues there.
-- KEYS[1] set of paused queues
-- ARGV[1...] name of a queue
-- returns how many were not paused before this call
return redis.call('SADD', KEYS[1], unpack(ARGV))
