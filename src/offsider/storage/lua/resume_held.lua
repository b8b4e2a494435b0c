#!lua flags=allow-oom
-- Move held jobs of a group back to their queues, all in one step: a worker that claims in between would run a later one
-- first. With a limit they move to the heads, and a slot is reserved for each; without one to the tails, since a million
-- of them would block all other jobs. Compares first, so that each moves once.
-- Redis does not roll back: look first, write the destination, remove the source last.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] recent starts
-- KEYS[5] payloads of resumed jobs
-- KEYS[6] set of paused queues
-- KEYS[7] set of known queues
-- KEYS[8] set of other lists with jobs
-- KEYS[9...] queue of each job
-- ARGV[1] limit (0: none, negative: nothing runs)
-- ARGV[2] maximum starts (0: any)
-- ARGV[3] milliseconds of these starts
-- ARGV[4] milliseconds for which a slot is reserved for a resumed job
-- ARGV[5...] of each job, the next one first: payload as held, payload to store, name of its queue, jid
-- returns for each job: 1 moved, 0 no longer held, -1 no slot is free, -2 its queue is paused
local count, limit, most = #KEYS - 8, tonumber(ARGV[1]), tonumber(ARGV[2])
local limited = limit ~= 0 or most > 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local room = count
if limited then
  local kept = redis.call('ZCOUNT', KEYS[2], now - ARGV[4], '+inf')
  if limit ~= 0 then room = math.min(room, limit - redis.call('ZCARD', KEYS[1]) - kept) end
  if most > 0 then room = math.min(room, most - redis.call('ZCOUNT', KEYS[4], '(' .. now - ARGV[3], '+inf') - kept) end
end
local replies, copies = {}, {}
for i = 1, count do
  local at = 1 + 4 * i
  -- Of equal jobs, one may have left since they were read.
  local copy = (copies[ARGV[at]] or 0) + 1
  copies[ARGV[at]] = copy
  if not redis.call('LPOS', KEYS[3], ARGV[at], 'RANK', -copy) then
    replies[i] = 0
  elseif room <= 0 then
    replies[i] = -1
  elseif redis.call('SISMEMBER', KEYS[6], ARGV[at + 2]) == 1 then
    replies[i] = -2
  else
    replies[i] = 1
    room = room - 1
  end
end
-- To the head the next job is pushed last.
local first, last, step = 1, count, 1
if limited then first, last, step = count, 1, -1 end
for i = first, last, step do
  if replies[i] == 1 then
    local at = 1 + 4 * i
    redis.call('SADD', KEYS[7], ARGV[at + 2])
    redis.call(limited and 'RPUSH' or 'LPUSH', KEYS[8 + i], ARGV[at + 1])
    if limited then
      redis.call('HSET', KEYS[5], ARGV[at + 3], ARGV[at + 1])
      redis.call('ZADD', KEYS[2], now, ARGV[at + 3])
    end
    redis.call('LREM', KEYS[3], -1, ARGV[at])
  end
end
if redis.call('LLEN', KEYS[3]) == 0 then redis.call('SREM', KEYS[8], KEYS[3]) end
return replies
