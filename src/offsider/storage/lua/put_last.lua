#!lua flags=allow-oom
-- Move a job from its owner's private list to the tail of its queue.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] private list
-- KEYS[3] queue
-- KEYS[4] set of known queues
-- ARGV[1] payload as it was claimed
-- ARGV[2] name of the queue
-- returns 1, or 0 if the job is no longer in the list, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
if not redis.call('LPOS', KEYS[2], ARGV[1]) then return 0 end
redis.call('LPUSH', KEYS[3], ARGV[1])
redis.pcall('SADD', KEYS[4], ARGV[2])
redis.call('LREM', KEYS[2], 1, ARGV[1])
return 1
