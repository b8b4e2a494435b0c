#!lua flags=allow-oom
-- Leave a signal for a process. A script, because LPUSH is refused when the server is full,
-- and a worker has to be stopped there as well.
-- KEYS[1] list of its signals
-- ARGV[1] signal
-- ARGV[2] seconds until they expire
-- returns how many wait now
local waiting = redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return waiting
