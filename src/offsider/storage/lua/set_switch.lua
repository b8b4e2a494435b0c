#!lua flags=allow-oom
-- Set the switch of a class, and begin its count anew. Not plain commands, which a full server refuses: dropping jobs
-- may be what makes room.
-- KEYS[1] switches by class
-- KEYS[2] jobs that they acted on, by class
-- ARGV[1] class
-- ARGV[2] switch (JSON)
-- returns 1
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
