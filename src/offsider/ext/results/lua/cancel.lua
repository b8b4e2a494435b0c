#!lua flags=allow-oom
-- Cancel a tracked job that waits: from now on it does not begin. Ask the process that runs a job to stop it.
-- The state of a job that waits keeps its life, so that it outlives the job, should the caller die before it removes it.
-- KEYS[1] state of the job, and the channel of its end
-- ARGV[1] channel of cancellations
-- ARGV[2] message
-- ARGV[3] 1 if hard
-- ARGV[4] now in seconds
-- returns the state that the job had; nothing if it is not tracked, an empty string if it has ended
local state, ended = unpack(redis.call('HMGET', KEYS[1], 'state', 'ended'))
if ended then return '' end
if state then redis.call('HSET', KEYS[1], 'cancel', ARGV[3]) end
if state and state ~= 'running' then
  redis.call('HDEL', KEYS[1], 'due')
  redis.call('HSET', KEYS[1], 'state', 'cancelled', 'ended', '1', 'at', ARGV[4])
end
-- Callers that wait for a running job whose worker was killed read the state again.
if state then redis.call('PUBLISH', KEYS[1], 'cancelled') end
redis.call('PUBLISH', ARGV[1], ARGV[2])
return state
