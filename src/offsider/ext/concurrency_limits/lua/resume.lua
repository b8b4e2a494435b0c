#!lua flags=allow-oom
-- Move a held job to the head of its queue and reserve a slot for it. Compares first, so that it moves once.
-- Redis does not roll back: look first, write the destination, remove the source last.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] limits set at run time
-- KEYS[5] set of paused classes
-- KEYS[6] recent starts
-- KEYS[7] rate limits of classes
-- KEYS[8] set of paused queues
-- KEYS[9] set of known queues
-- KEYS[10] the job's queue
-- KEYS[11] set of other lists with jobs
-- KEYS[12] payloads of resumed jobs
-- ARGV[1] name of the class
-- ARGV[2] limit in code
-- ARGV[3] milliseconds for which a slot is reserved for a resumed job
-- ARGV[4] payload as held
-- ARGV[5] payload to store
-- ARGV[6] name of the queue
-- ARGV[7] jid
-- returns 1 moved, 0 no longer held, -1 no slot is free, -2 its queue is paused
if not redis.call('LPOS', KEYS[3], ARGV[4], 'RANK', -1) then return 0 end
local limit = tonumber(redis.call('HGET', KEYS[4], ARGV[1]) or ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('SISMEMBER', KEYS[5], ARGV[1]) == 1 then return -1 end
local kept = redis.call('ZCOUNT', KEYS[2], now - ARGV[3], '+inf')
if limit ~= 0 and redis.call('ZCARD', KEYS[1]) + kept >= limit then return -1 end
local rate = redis.call('HGET', KEYS[7], ARGV[1])
if rate then
  local most, window = string.match(rate, '^(%d+) (%d+)$')
  if redis.call('ZCOUNT', KEYS[6], '(' .. now - window, '+inf') + kept >= tonumber(most) then return -1 end
end
if redis.call('SISMEMBER', KEYS[8], ARGV[6]) == 1 then return -2 end
redis.call('SADD', KEYS[9], ARGV[6])
redis.call('RPUSH', KEYS[10], ARGV[5])
if limit ~= 0 or rate then
  redis.call('HSET', KEYS[12], ARGV[7], ARGV[5])
  redis.call('ZADD', KEYS[2], now, ARGV[7])
end
redis.call('LREM', KEYS[3], -1, ARGV[4])
if redis.call('LLEN', KEYS[3]) == 0 then redis.call('SREM', KEYS[11], KEYS[3]) end
return 1
