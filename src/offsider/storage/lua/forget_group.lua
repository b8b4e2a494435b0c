#!lua flags=allow-oom
-- Forget a group without slots and held jobs, and resumed jobs that never started; plan the next check of held jobs.
-- Atomic: a job may be held now.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] recent starts
-- KEYS[5] payloads of resumed jobs
-- KEYS[6] set of groups with slots or held jobs
-- KEYS[7] set of other lists with jobs
-- KEYS[8] groups with held jobs, by the time of their next check
-- ARGV[1] name of the group
-- ARGV[2] milliseconds after which a resumed job is forgotten
-- ARGV[3] milliseconds until the next check, if no rate limit delays it
-- ARGV[4] maximum starts (0: any)
-- ARGV[5] milliseconds of these starts
-- returns the milliseconds until the next check; -1 without held jobs
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2], 'LIMIT', 0, 1000)
for _, jid in ipairs(gone) do
  redis.call('HDEL', KEYS[5], jid)
  redis.call('ZREM', KEYS[2], jid)
end
if redis.call('LLEN', KEYS[3]) > 0 then
  local due, most = now + ARGV[3], tonumber(ARGV[4])
  if most > 0 and redis.call('ZCOUNT', KEYS[4], '(' .. now - ARGV[5], '+inf') >= most then
    -- The rate limit may be raised before that.
    due = math.min(redis.call('ZRANGE', KEYS[4], -most, -most, 'WITHSCORES')[2] + ARGV[5], now + 60000)
  end
  redis.call('ZADD', KEYS[8], due, ARGV[1])
  return math.ceil(due - now)
end
redis.call('ZREM', KEYS[8], ARGV[1])
redis.call('SREM', KEYS[7], KEYS[3])
if redis.call('ZCARD', KEYS[1]) == 0 then redis.call('SREM', KEYS[6], ARGV[1]) end
return -1
