#!lua flags=no-writes,allow-oom
-- Return the held jobs of a group that may be resumed now.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] recent starts
-- ARGV[1] limit (0: none, negative: nothing runs)
-- ARGV[2] maximum starts (0: any)
-- ARGV[3] milliseconds of these starts
-- ARGV[4] milliseconds for which a slot is reserved for a resumed job
-- ARGV[5] number of held jobs to skip
-- ARGV[6] maximum jobs to resume; after skipped jobs, the number of payloads to return
-- returns {number of free slots, number of resumed jobs that have not started, number of those with a reserved slot,
--   payloads with the next one last}
local limit, most = tonumber(ARGV[1]), tonumber(ARGV[2])
if limit < 0 or redis.call('LLEN', KEYS[3]) == 0 then return {0, 0, 0} end
local room, waiting, kept = tonumber(ARGV[6]), 0, 0
if limit > 0 or most > 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  kept = redis.call('ZCOUNT', KEYS[2], now - ARGV[4], '+inf')
  if limit > 0 then room = math.min(room, limit - redis.call('ZCARD', KEYS[1]) - kept) end
  if most > 0 then room = math.min(room, most - redis.call('ZCOUNT', KEYS[4], '(' .. now - ARGV[3], '+inf') - kept) end
  waiting = redis.call('ZCARD', KEYS[2])
end
if room <= 0 then return {0, 0, 0} end
local count = tonumber(ARGV[5]) > 0 and ARGV[6] or room
local found = redis.call('LRANGE', KEYS[3], -(ARGV[5] + count), -(ARGV[5] + 1))
table.insert(found, 1, kept)
table.insert(found, 1, waiting)
table.insert(found, 1, room)
return found
