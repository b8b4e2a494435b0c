#!lua flags=allow-oom
-- Move a job from its owner's private list into the dead set, and trim the set as Sidekiq does.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] private list
-- KEYS[3] dead set
-- ARGV[1] payload as it was claimed
-- ARGV[2] payload to store
-- ARGV[3] retention of dead jobs in seconds
-- ARGV[4] size limit of the dead set; it keeps one job less, as in Sidekiq
-- returns 1, or 0 if the job is no longer in the list, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
if not redis.call('LPOS', KEYS[2], ARGV[1]) then return 0 end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZADD', KEYS[3], string.format('%.6f', now), ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.6f', now - ARGV[3]))
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -ARGV[4])
redis.call('LREM', KEYS[2], 1, ARGV[1])
return 1
