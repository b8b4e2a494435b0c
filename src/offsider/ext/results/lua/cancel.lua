#!lua flags=allow-oom
-- Cancel a tracked job that waits: from now on it does not begin. Ask the process that runs a job to stop it.
-- The state of a job that waits keeps its life, so that it outlives the job, should the caller die before it removes it.
-- KEYS[1] state of the job, and the channel of its end
-- ARGV[1] channel of cancellations
-- ARGV[2] message
-- ARGV[3] 1 if hard
-- ARGV[4] now in seconds
-- returns {the state that the job had, when it is due, not empty if it has ended}; {} if it is not tracked
local state, due, ended = unpack(redis.call('HMGET', KEYS[1], 'state', 'due', 'ended'))
if ended then return {state or '', '', '1'} end
if not state then return {} end
redis.call('HSET', KEYS[1], 'cancel', ARGV[3])
if state ~= 'running' then
  redis.call('HDEL', KEYS[1], 'due')
  redis.call('HSET', KEYS[1], 'state', 'cancelled', 'ended', '1', 'at', ARGV[4])
end
-- Callers that wait for a running job whose worker was killed read the state again.
redis.call('PUBLISH', KEYS[1], 'cancelled')
redis.call('PUBLISH', ARGV[1], ARGV[2])
return {state, due or '', ''}
