#!lua flags=allow-oom
-- Read what a process needs once a second, and take a signal for it.
-- KEYS[1] version of the controls
-- KEYS[2] set of paused queues
-- KEYS[3] signals for this process
-- KEYS[4] groups with held jobs
-- returns {version or false, {paused queue, …}, signal or false, 1 if jobs are held}
local version = redis.call('GET', KEYS[1])
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) == 0 then return {version, {}, false, 0} end
local paused, signal = redis.call('SMEMBERS', KEYS[2]), redis.call('RPOP', KEYS[3])
return {version, paused, signal, redis.call('EXISTS', KEYS[4])}
