#!lua flags=allow-oom
-- Move a job from its owner's private list into a sorted set, due after a delay.
-- Redis does not roll back: check first, then write the destination, and remove the source last.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] private list
-- KEYS[3] sorted set: retry or schedule
-- ARGV[1] payload as it was claimed
-- ARGV[2] payload to store
-- ARGV[3] delay in seconds from the server's time
-- returns 1, or 0 if the job is no longer in the list, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
if not redis.call('LPOS', KEYS[2], ARGV[1]) then return 0 end
local time = redis.call('TIME')
local due = time[1] + time[2] / 1000000 + ARGV[3]
redis.call('ZADD', KEYS[3], string.format('%.6f', due), ARGV[2])
redis.call('LREM', KEYS[2], 1, ARGV[1])
return 1
