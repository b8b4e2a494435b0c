#!lua flags=allow-oom
-- Mark a tracked job as cancelled, so that it does not begin, and ask the process that runs it to stop it.
-- KEYS[1] state of the job
-- ARGV[1] channel of cancellations
-- ARGV[2] message
-- ARGV[3] 1 if hard
-- returns the state of the job; nothing if it is not tracked
local state, ended = unpack(redis.call('HMGET', KEYS[1], 'state', 'ended'))
if state and not ended then redis.call('HSET', KEYS[1], 'cancel', ARGV[3]) end
if not ended then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return state
