#!lua flags=allow-oom
-- Forget a class without slots and held jobs, and resumed jobs that never started. Atomic: a job may be held now.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] set of classes with slots
-- KEYS[5] set of other lists with jobs
-- KEYS[6] payloads of resumed jobs
-- ARGV[1] name of the class
-- ARGV[2] milliseconds after which a resumed job is forgotten
-- returns nothing
local time = redis.call('TIME')
local before = time[1] * 1000 - ARGV[2]
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', before, 'LIMIT', 0, 1000)
for _, jid in ipairs(gone) do
  redis.call('HDEL', KEYS[6], jid)
  redis.call('ZREM', KEYS[2], jid)
end
if redis.call('LLEN', KEYS[3]) > 0 then return end
redis.call('SREM', KEYS[5], KEYS[3])
if redis.call('ZCARD', KEYS[1]) == 0 then redis.call('SREM', KEYS[4], ARGV[1]) end
