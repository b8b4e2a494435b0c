#!lua flags=allow-oom
-- Free the slot of a run that is over, and answer which parked jobs may follow: the same step, so that none is missed.
-- KEYS[1] slots in use
-- KEYS[2] jobs that were resumed and have not come yet
-- KEYS[3] list of parked jobs
-- KEYS[4] limits that were set at run time
-- KEYS[5] set of paused classes
-- ARGV[1] member: the run; empty only to ask
-- ARGV[2] name of the class
-- ARGV[3] the limit that the code declares
-- ARGV[4] milliseconds for which a slot is kept for a resumed job
-- ARGV[5] how many parked jobs to skip
-- ARGV[6] the most jobs to resume, and so many are answered behind others that were skipped
-- returns {how many may be resumed, how many were resumed and are late, payloads of parked jobs with the next one last}
if ARGV[1] ~= '' then redis.call('ZREM', KEYS[1], ARGV[1]) end
if redis.call('LLEN', KEYS[3]) == 0 then return {0, 0} end
if redis.call('SISMEMBER', KEYS[5], ARGV[2]) == 1 then return {0, 0} end
local limit = tonumber(redis.call('HGET', KEYS[4], ARGV[2]) or ARGV[3])
local room, late = tonumber(ARGV[6]), 0
if limit ~= 0 then
  local time = redis.call('TIME')
  local since = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[4]
  local kept = redis.call('ZCOUNT', KEYS[2], since, '+inf')
  room = math.min(room, limit - redis.call('ZCARD', KEYS[1]) - kept)
  late = redis.call('ZCARD', KEYS[2]) - kept
end
if room <= 0 then return {0, 0} end
local count = tonumber(ARGV[5]) > 0 and ARGV[6] or room
local found = redis.call('LRANGE', KEYS[3], -(ARGV[5] + count), -(ARGV[5] + 1))
table.insert(found, 1, late)
table.insert(found, 1, room)
return found
