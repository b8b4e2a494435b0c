#!lua flags=allow-oom
-- Take a slot for a job of a limited class and key, or hold the job, atomically.
-- Redis does not roll back: look first, write the destination, remove the source last.
-- KEYS[1] slots in use
-- KEYS[2] resumed jobs that have not started yet
-- KEYS[3] list of held jobs
-- KEYS[4] limits set at run time
-- KEYS[5] set of paused classes
-- KEYS[6] recent starts
-- KEYS[7] rate limits of classes
-- KEYS[8] groups with held jobs, by the time of their next check
-- KEYS[9] set of groups with slots
-- KEYS[10] set of other lists with jobs
-- KEYS[11] fenced mark of the process
-- KEYS[12] payloads of resumed jobs
-- KEYS[13] mark of a run whose job was held and is in no private list
-- KEYS[14...] private list of the job, if it is in one
-- ARGV[1] member: the run that needs a slot
-- ARGV[2] jid
-- ARGV[3] name of the class
-- ARGV[4] limit in code
-- ARGV[5] milliseconds for which a slot is reserved for a resumed job
-- ARGV[6] payload as claimed
-- ARGV[7] payload to hold
-- ARGV[8] 1 if the reply to the same call was lost
-- ARGV[9] name of the group: of the class, with its key
-- ARGV[10] rate limit: maximum starts and milliseconds, or empty
-- returns 1 slot taken, 2 no limit, 3 held, 4 held although a slot is free, 0 another process has the job, 5 slot taken
--   by the last resumed job while slots are free for more
if redis.call('EXISTS', KEYS[11]) == 1 then return 0 end
local list = KEYS[14]
local function forget_resumed()
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call('HDEL', KEYS[12], ARGV[2])
end
if ARGV[8] == '1' then
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end
  if redis.call('LPOS', KEYS[3], ARGV[7]) then return 3 end
  if list and not redis.call('LPOS', list, ARGV[6]) then return 0 end
  -- The job may have been resumed since; without a private list only the mark proves that it was held.
  if not list and redis.call('EXISTS', KEYS[13]) == 1 then return 3 end
end
local set = redis.call('HGET', KEYS[4], ARGV[3])
local limit = tonumber(set and string.match(set, '^%d+$') or ARGV[4])
if redis.call('SISMEMBER', KEYS[5], ARGV[3]) == 1 then limit = -1 end
local resumed = redis.call('ZSCORE', KEYS[2], ARGV[2])
local most, window = string.match(ARGV[10], '^(%d+) (%d+)$')
if limit == 0 and not most then
  if resumed then forget_resumed() end
  return 2
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = now - ARGV[5]
local kept = redis.call('ZCOUNT', KEYS[2], since, '+inf')
if resumed and tonumber(resumed) >= since then kept = kept - 1 end
local free = limit == 0 or redis.call('ZCARD', KEYS[1]) + kept < limit
if most then
  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now - window)
  free = free and redis.call('ZCARD', KEYS[6]) + kept < tonumber(most)
end
if free and (resumed or redis.call('LLEN', KEYS[3]) == 0) then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
  if most then
    redis.call('ZADD', KEYS[6], now, ARGV[1])
    redis.call('PEXPIRE', KEYS[6], window)
  end
  redis.call('SADD', KEYS[9], ARGV[9])
  if not resumed then return 1 end
  forget_resumed()
  local more = kept == 0 and redis.call('LLEN', KEYS[3]) > 0
  more = more and (limit == 0 or redis.call('ZCARD', KEYS[1]) < limit)
  more = more and (not most or redis.call('ZCARD', KEYS[6]) < tonumber(most))
  return more and 5 or 1
end
if list and not redis.call('LPOS', list, ARGV[6]) then return 0 end
redis.call('SADD', KEYS[10], KEYS[3])
redis.call('SADD', KEYS[9], ARGV[9])
redis.call('ZADD', KEYS[8], 'NX', now, ARGV[9])
if most then redis.call('HSET', KEYS[7], ARGV[3], ARGV[10]) else redis.call('HDEL', KEYS[7], ARGV[3]) end
-- A resumed job that lost its reservation has waited longest.
if not list then redis.call('SET', KEYS[13], 1, 'EX', 600) end
redis.call(resumed and 'RPUSH' or 'LPUSH', KEYS[3], ARGV[7])
if resumed then forget_resumed() end
if list then redis.call('LREM', list, 1, ARGV[6]) end
return free and 4 or 3
