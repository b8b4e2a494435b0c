#!lua flags=allow-oom
-- Forget a group without slots and held jobs, and resumed jobs that never started; plan the next check of held jobs.
-- Atomic: a job may be held now.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] set of groups with slots
-- KEYS[5] set of other lists with jobs
-- KEYS[6] payloads of resumed jobs
-- KEYS[7] recent starts
-- KEYS[8] rate limits of classes
-- KEYS[9] groups with held jobs, by the time of their next check
-- ARGV[1] name of the group
-- ARGV[2] milliseconds after which a resumed job is forgotten
-- ARGV[3] name of the class
-- ARGV[4] milliseconds until the next check, if no rate limit delays it
-- returns the milliseconds until the next check; -1 without held jobs
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local before = now - ARGV[2]
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', before, 'LIMIT', 0, 1000)
for _, jid in ipairs(gone) do
  redis.call('HDEL', KEYS[6], jid)
  redis.call('ZREM', KEYS[2], jid)
end
if redis.call('LLEN', KEYS[3]) > 0 then
  local due = now + ARGV[4]
  local most, window = string.match(redis.call('HGET', KEYS[8], ARGV[3]) or '', '^(%d+) (%d+)$')
  if most then
    local recent = redis.call('ZCOUNT', KEYS[7], '(' .. now - window, '+inf')
    if recent >= tonumber(most) then
      due = redis.call('ZRANGE', KEYS[7], -most, -most, 'WITHSCORES')[2] + window
      -- The rate limit may be raised before that.
      due = math.min(due, now + 60000)
    end
  end
  redis.call('ZADD', KEYS[9], due, ARGV[1])
  return math.ceil(due - now)
end
redis.call('ZREM', KEYS[9], ARGV[1])
redis.call('SREM', KEYS[5], KEYS[3])
if redis.call('ZCARD', KEYS[1]) == 0 then redis.call('SREM', KEYS[4], ARGV[1]) end
return -1
