#!lua flags=allow-oom
-- Send a signal to a process. A script, because a full server refuses LPUSH, and operators must be able to stop
-- workers there.
-- KEYS[1] list of its signals
-- ARGV[1] signal
-- ARGV[2] seconds until they expire
-- returns the number of pending signals
local waiting = redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return waiting
