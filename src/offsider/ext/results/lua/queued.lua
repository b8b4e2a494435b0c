#!lua flags=allow-oom
-- Write the state of a pushed job. A push that is repeated for a lost reply must not hide the state of a job that runs.
-- KEYS[1] state of the job
-- ARGV[1] life in milliseconds
-- ARGV[2...] fields and values
-- returns 1 if it was written, 0 if the job has a state and has not ended
if redis.call('EXISTS', KEYS[1]) == 1 then
  if not redis.call('HGET', KEYS[1], 'ended') then return 0 end
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
