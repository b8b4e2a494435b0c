#!lua
-- Store jobs and take their locks, each only if no other job holds its lock. A debounced job replaces a waiting one.
-- A job that already holds its lock was stored by an earlier attempt of the same push, and is not stored twice.
-- Value of a lock: jid, time taken, handling of duplicates, class; if debounced, the payload.
-- KEYS[1] index of locks, by the time when they expire
-- KEYS[2] set of known queues
-- KEYS[3] the queue, or the schedule
-- KEYS[4...] lock of each job
-- ARGV[1] name of the queue; empty for scheduled jobs
-- ARGV[2] jid of the job that hands over its lock; empty for none
-- ARGV[3...] for each job: life of the lock in milliseconds, value of the lock, payload, due time in epoch seconds, and
--   unique, throttle or debounce
-- returns nil if all jobs are stored and replace none; else, for each job, the jid of the lock's holder if refused, a
--   zero byte and the payload of the replaced job, or an empty string
local replies, notable = {}, false
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('ZCOUNT', KEYS[1], '-inf', now)
-- More than this call adds, so the index shrinks to the locks that exist.
if expired > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(expired, #KEYS + 10) - 1) end
for i = 1, #KEYS - 3 do
  local lock, at = KEYS[3 + i], 5 * i - 2
  local life, value, job, due, kind = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local debounced = kind == 'debounce'
  local held = debounced and redis.call('GET', lock) or redis.call('SET', lock, value, 'NX', 'GET', 'PX', life)
  local holder = held and not debounced and string.match(held, '^%S+')
  replies[i] = ''
  if holder and holder == ARGV[2] then
    redis.call('SET', lock, value, 'PX', life)
    holder = false
  end
  if not holder then
    local stored
    if ARGV[1] ~= '' then
      redis.pcall('SADD', KEYS[2], ARGV[1])
      stored = redis.pcall('LPUSH', KEYS[3], job)
    else
      stored = redis.pcall('ZADD', KEYS[3], due, job)
    end
    if type(stored) == 'table' then
      if not debounced then redis.call('DEL', lock) end
      return stored
    end
    if kind == 'unique' then redis.call('ZADD', KEYS[1], now + life, string.sub(lock, #KEYS[1] + 2)) end
    if debounced then
      if held and held ~= job and redis.call('ZREM', KEYS[3], held) == 1 then
        replies[i], notable = '\0' .. held, true
      end
      redis.call('SET', lock, value, 'PX', life)
    end
  elseif holder ~= string.match(value, '^%S+') then
    if string.find(value, '^%S+ %d+ wanted ') then
      redis.call('SET', lock, (string.gsub(held, '^(%S+ %d+) %a+', '%1 again')), 'KEEPTTL')
    end
    replies[i], notable = holder, true
  end
end
return notable and replies
