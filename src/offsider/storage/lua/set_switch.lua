#!lua flags=allow-oom
-- Set the switch of a class, and reset its count. A script, because a full server refuses plain writes, and dropping
-- jobs frees memory.
-- KEYS[1] switches by class
-- KEYS[2] jobs that they acted on, by class
-- ARGV[1] class
-- ARGV[2] switch (JSON)
-- returns 1
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
