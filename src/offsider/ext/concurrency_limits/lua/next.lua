#!lua flags=no-writes,allow-oom
-- Return the held jobs that may be resumed now.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] limits set at run time
-- KEYS[5] set of paused classes
-- KEYS[6] recent starts
-- KEYS[7] rate limits of classes
-- ARGV[1] name of the class
-- ARGV[2] limit in code
-- ARGV[3] milliseconds for which a slot is reserved for a resumed job
-- ARGV[4] number of held jobs to skip
-- ARGV[5] maximum jobs to resume; after skipped jobs, the number of payloads to return
-- returns {number of free slots, number of resumed jobs that have not started, number of those with a reserved slot,
--   payloads with the next one last}
if redis.call('LLEN', KEYS[3]) == 0 then return {0, 0, 0} end
if redis.call('SISMEMBER', KEYS[5], ARGV[1]) == 1 then return {0, 0, 0} end
local set = redis.call('HGET', KEYS[4], ARGV[1])
local limit = tonumber(set and string.match(set, '^%d+$') or ARGV[2])
local room, waiting, kept = tonumber(ARGV[5]), 0, 0
local rate = redis.call('HGET', KEYS[7], ARGV[1])
if limit ~= 0 or rate then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  kept = redis.call('ZCOUNT', KEYS[2], now - ARGV[3], '+inf')
  if limit ~= 0 then room = math.min(room, limit - redis.call('ZCARD', KEYS[1]) - kept) end
  if rate then
    local most, window = string.match(rate, '^(%d+) (%d+)$')
    room = math.min(room, most - redis.call('ZCOUNT', KEYS[6], '(' .. now - window, '+inf') - kept)
  end
  waiting = redis.call('ZCARD', KEYS[2])
end
if room <= 0 then return {0, 0, 0} end
local count = tonumber(ARGV[4]) > 0 and ARGV[5] or room
local found = redis.call('LRANGE', KEYS[3], -(ARGV[4] + count), -(ARGV[4] + 1))
table.insert(found, 1, kept)
table.insert(found, 1, waiting)
table.insert(found, 1, room)
return found
