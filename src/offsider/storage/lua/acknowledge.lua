#!lua flags=allow-oom
-- Remove a finished job from its owner's private list, unless the owner was fenced.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] private list
-- ARGV[1] payload as it was claimed
-- returns 1, or 0 when the job is no longer there, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
return redis.call('LREM', KEYS[2], 1, ARGV[1])
