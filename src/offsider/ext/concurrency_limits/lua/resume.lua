#!lua flags=allow-oom
-- Move held jobs to the heads of their queues, all in one step: a worker that claims in between would run a later one
-- first. Reserve a slot for each. Compares first, so that each moves once.
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
-- KEYS[10] set of other lists with jobs
-- KEYS[11] payloads of resumed jobs
-- KEYS[12...] queue of each job
-- ARGV[1] name of the class
-- ARGV[2] limit in code
-- ARGV[3] milliseconds for which a slot is reserved for a resumed job
-- ARGV[4...] of each job, the next one first: payload as held, payload to store, name of its queue, jid
-- returns for each job: 1 moved, 0 no longer held, -1 no slot is free, -2 its queue is paused
local count = #KEYS - 11
local set = redis.call('HGET', KEYS[4], ARGV[1])
local limit = tonumber(set and string.match(set, '^%d+$') or ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = redis.call('ZCOUNT', KEYS[2], now - ARGV[3], '+inf')
local room = count
if limit ~= 0 then room = math.min(room, limit - redis.call('ZCARD', KEYS[1]) - kept) end
local rate = redis.call('HGET', KEYS[7], ARGV[1])
if rate then
  local most, window = string.match(rate, '^(%d+) (%d+)$')
  room = math.min(room, most - redis.call('ZCOUNT', KEYS[6], '(' .. now - window, '+inf') - kept)
end
if redis.call('SISMEMBER', KEYS[5], ARGV[1]) == 1 then room = 0 end
local replies = {}
for i = 1, count do
  local at = 4 * i
  if not redis.call('LPOS', KEYS[3], ARGV[at], 'RANK', -1) then
    replies[i] = 0
  elseif room <= 0 then
    replies[i] = -1
  elseif redis.call('SISMEMBER', KEYS[8], ARGV[at + 2]) == 1 then
    replies[i] = -2
  else
    replies[i] = 1
    room = room - 1
  end
end
-- Push the next job last: then it is at the head of its queue.
for i = count, 1, -1 do
  if replies[i] == 1 then
    local at = 4 * i
    redis.call('SADD', KEYS[9], ARGV[at + 2])
    redis.call('RPUSH', KEYS[11 + i], ARGV[at + 1])
    if limit ~= 0 or rate then
      redis.call('HSET', KEYS[11], ARGV[at + 3], ARGV[at + 1])
      redis.call('ZADD', KEYS[2], now, ARGV[at + 3])
    end
    redis.call('LREM', KEYS[3], -1, ARGV[at])
  end
end
if redis.call('LLEN', KEYS[3]) == 0 then redis.call('SREM', KEYS[10], KEYS[3]) end
return replies
