#!lua flags=allow-oom
-- Keep the steps of a job that runs again, or delete them. A job that waits for a signal runs at once if that has come:
-- a script, because it may come after the job has looked for it.
-- KEYS[1] steps of the job
-- KEYS[2] schedule
-- ARGV[1] expiry in seconds; 0 to delete them
-- ARGV[2] name of the signal that the job waits for; empty if it waits for none
-- ARGV[3] its payload in the schedule
-- ARGV[4] end of the wait
-- returns whether there was something to keep or to delete, as 1 or 0
if ARGV[1] == '0' then return redis.call('UNLINK', KEYS[1]) end
if ARGV[2] ~= '' then
  redis.call('HSETNX', KEYS[1], 'until:' .. ARGV[2], ARGV[4])
  if redis.call('HEXISTS', KEYS[1], 'signal:' .. ARGV[2]) == 1 then
    redis.call('ZADD', KEYS[2], 'XX', redis.call('TIME')[1], ARGV[3])
  else
    redis.call('HSET', KEYS[1], 'waits', ARGV[2] .. '\n' .. ARGV[3])
  end
end
return redis.call('EXPIRE', KEYS[1], ARGV[1])
