#!lua flags=allow-oom
-- Forget a class that has nothing any more, and jobs that never came: in one step, for a job may be parked meanwhile.
-- KEYS[1] slots in use
-- KEYS[2] jobs that were resumed and have not come yet
-- KEYS[3] list of parked jobs
-- KEYS[4] set of classes with slots
-- KEYS[5] set of further lists where jobs lie
-- KEYS[6] payloads of jobs that were resumed
-- ARGV[1] name of the class
-- ARGV[2] milliseconds after which a job that was resumed is not waited for any more
-- returns nothing
local time = redis.call('TIME')
local long_ago = time[1] * 1000 - ARGV[2]
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', long_ago, 'LIMIT', 0, 1000)
for _, jid in ipairs(gone) do
  redis.call('HDEL', KEYS[6], jid)
  redis.call('ZREM', KEYS[2], jid)
end
if redis.call('LLEN', KEYS[3]) > 0 then return end
redis.call('SREM', KEYS[5], KEYS[3])
if redis.call('ZCARD', KEYS[1]) == 0 then redis.call('SREM', KEYS[4], ARGV[1]) end
