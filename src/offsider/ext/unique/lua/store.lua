#!lua
-- Store jobs and take their locks, each only if no other job holds its lock.
-- A job that already holds its lock was stored by an earlier attempt of the same push, and is not stored twice.
-- Value of a lock: jid, time taken, last start of the job or 0, handling of duplicates, class.
-- KEYS[1] index of locks
-- KEYS[2] set of known queues
-- KEYS[3] the queue, or the schedule
-- KEYS[4...] lock of each job
-- ARGV[1] name of the queue; empty for scheduled jobs
-- ARGV[2] jid of the job that hands over its lock; empty for none
-- ARGV[3...] for each job: life of the lock in milliseconds, value of the lock, payload, due time in epoch seconds
-- returns nil if all jobs are stored; else, for each job, the jid of the lock's holder if refused, or an empty string
local replies, refused = {}, false
for i = 1, #KEYS - 3 do
  local lock, at = KEYS[3 + i], 4 * i - 1
  local held = redis.call('SET', lock, ARGV[at + 1], 'NX', 'GET', 'PX', ARGV[at])
  local holder = held and string.match(held, '^%S+')
  replies[i] = ''
  if holder and holder == ARGV[2] then
    redis.call('SET', lock, ARGV[at + 1], 'PX', ARGV[at])
    held = false
  end
  if not held then
    local stored
    if ARGV[1] ~= '' then
      redis.pcall('SADD', KEYS[2], ARGV[1])
      stored = redis.pcall('LPUSH', KEYS[3], ARGV[at + 2])
    else
      stored = redis.pcall('ZADD', KEYS[3], ARGV[at + 3], ARGV[at + 2])
    end
    if type(stored) == 'table' then
      redis.call('DEL', lock)
      return stored
    end
    redis.call('SADD', KEYS[1], string.sub(lock, #KEYS[1] + 2))
  elseif holder ~= string.match(ARGV[at + 1], '^%S+') then
    if string.find(ARGV[at + 1], '^%S+ %d+ %d+ wanted ') then
      redis.call('SET', lock, (string.gsub(held, '^(%S+ %d+ %d+) %a+', '%1 again')), 'KEEPTTL')
    end
    replies[i] = holder
    refused = true
  end
end
return refused and replies
