#!lua flags=allow-oom
-- Note that queues are paused. A script, because SADD is refused when the server is full,
-- and to pause a queue is what one wants then.
-- KEYS[1] set of paused queues
-- ARGV[1...] name of a queue
-- returns how many were not paused before
return redis.call('SADD', KEYS[1], unpack(ARGV))
