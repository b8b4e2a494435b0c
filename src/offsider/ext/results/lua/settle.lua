#!lua flags=allow-oom
-- Write the state of a job with its outcome, publish its end, and add it to the finished jobs of its class.
-- KEYS[1] state of the job
-- KEYS[2] finished jobs of its class, the last one first
-- KEYS[3] classes with finished jobs
-- ARGV[1] state
-- ARGV[2] life in milliseconds
-- ARGV[3] channel of its end; empty if it has not ended
-- ARGV[4] 1 if only a job that has a state gets one
-- ARGV[5] class
-- ARGV[6] now in seconds
-- ARGV[7] maximum number of finished jobs of a class
-- ARGV[8] life of the list of finished jobs in milliseconds
-- ARGV[9] what is noted with a finished job after its state and time
-- ARGV[10...] fields and values
-- returns 1 if it was written
local state, ended = ARGV[1], ARGV[3] ~= ''
if ARGV[4] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if state == 'discarded' and redis.call('HEXISTS', KEYS[1], 'cancel') == 1 then state = 'cancelled' end
redis.call('HDEL', KEYS[1], 'due', 'run', 'ended')
redis.call('HSET', KEYS[1], 'state', state, 'class', ARGV[5], 'at', ARGV[6], unpack(ARGV, 10))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ended then
  redis.call('HSET', KEYS[1], 'ended', '1')
  redis.call('PUBLISH', ARGV[3], state)
  redis.call('LPUSH', KEYS[2], state .. ' ' .. ARGV[6] .. ' ' .. ARGV[9])
  redis.call('LTRIM', KEYS[2], 0, ARGV[7] - 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
  redis.call('ZADD', KEYS[3], ARGV[6], ARGV[5])
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -1001)
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
end
return 1
