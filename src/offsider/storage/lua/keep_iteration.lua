#!lua flags=allow-oom
-- Keep the state of an iteration, or delete it. A script, because a fenced process must not overwrite what the next run
-- of the job keeps.
-- KEYS[1] state of the iteration
-- KEYS[2] fenced mark of the owner of the job
-- ARGV[1] expiry in seconds; 0 to delete it
-- ARGV[2...] fields and values
-- returns 1 if the iteration was cancelled, 0 if not, -1 if the owner is fenced
if redis.call('EXISTS', KEYS[2]) == 1 then return -1 end
if ARGV[1] == '0' then
  redis.call('UNLINK', KEYS[1])
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return redis.call('HEXISTS', KEYS[1], 'cancelled')
