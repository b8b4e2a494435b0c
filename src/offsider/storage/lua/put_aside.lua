#!lua flags=allow-oom
-- Move a job from its owner's private list into quarantine; if the quarantine is full, delete the job.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] private list
-- KEYS[3] quarantine: ids scored by expiry in epoch seconds
-- KEYS[4] quarantined jobs by id
-- ARGV[1] payload
-- ARGV[2] id
-- ARGV[3] head (a line of JSON)
-- ARGV[4] retention in seconds
-- ARGV[5] maximum number of jobs in quarantine
-- returns 1, or 0 if the job is no longer in the list, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
if not redis.call('LPOS', KEYS[2], ARGV[1]) then return 0 end
if redis.call('ZCARD', KEYS[3]) < tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[4], ARGV[2], ARGV[3] .. '\n' .. ARGV[1])
  redis.call('ZADD', KEYS[3], redis.call('TIME')[1] + ARGV[4], ARGV[2])
end
redis.call('LREM', KEYS[2], 1, ARGV[1])
return 1
