#!lua flags=allow-oom
-- Take a slot in each group of a job, or hold the job in the first group without a free slot, atomically.
-- Redis does not roll back: look first, write the destination, remove the source last.
-- KEYS[1] fenced mark of the process
-- KEYS[2] set of groups with slots or held jobs
-- KEYS[3] groups with held jobs, by the time of their next check
-- KEYS[4] set of other lists with jobs
-- KEYS[5] mark of a run whose job was held and is in no private list
-- KEYS[6...] of each group: slots in use, resumed jobs that have not started, their payloads, held jobs, recent starts
-- KEYS[...] private list of the job, if it is in one
-- ARGV[1] member: the run that needs the slots
-- ARGV[2] jid
-- ARGV[3] milliseconds for which a slot is reserved for a resumed job
-- ARGV[4] payload as claimed
-- ARGV[5] payload to hold
-- ARGV[6] 1 if the reply to the same call was lost
-- ARGV[7...] of each group: its name, limit (0: none, negative: nothing runs), maximum starts (0: any), their milliseconds
-- returns {1 slots taken, 2 held, 3 held although a slot is free, 0 another process has the job, 4 slots taken by the
--   last resumed job of a group while slots are free for more; the index of that group from 1, or 0}
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, 0} end
local count = (#ARGV - 6) / 4
local list = KEYS[6 + 5 * count]
local resumed_in, reserved_in = 0, 0
-- Of group i: KEYS[5 * i + 1] to KEYS[5 * i + 5], ARGV[4 * i + 3] to ARGV[4 * i + 6].
local function number_of(i, place) return tonumber(ARGV[4 * i + place]) end
if ARGV[6] == '1' then
  if redis.call('ZSCORE', KEYS[6], ARGV[1]) then return {1, 0} end
  for i = 1, count do
    if redis.call('LPOS', KEYS[5 * i + 4], ARGV[5]) then return {2, i} end
  end
  if list and not redis.call('LPOS', list, ARGV[4]) then return {0, 0} end
  -- The job may have been resumed since; without a private list only the mark proves that it was held.
  if not list and redis.call('EXISTS', KEYS[5]) == 1 then return {2, 1} end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = now - ARGV[3]
for i = 1, count do
  local score = redis.call('ZSCORE', KEYS[5 * i + 2], ARGV[2])
  if score then resumed_in = i end
  if score and tonumber(score) >= since then reserved_in = i end
end
local function has_room(i, kept)
  local limit, most = number_of(i, 4), number_of(i, 5)
  if limit ~= 0 and redis.call('ZCARD', KEYS[5 * i + 1]) + kept >= limit then return false end
  return most == 0 or redis.call('ZCARD', KEYS[5 * i + 5]) + kept < most
end
local function forget_resumed()
  if resumed_in == 0 then return end
  redis.call('ZREM', KEYS[5 * resumed_in + 2], ARGV[2])
  redis.call('HDEL', KEYS[5 * resumed_in + 3], ARGV[2])
end
local full, has_free, kept_in = 0, false, 0
for i = 1, count do
  if number_of(i, 5) > 0 then redis.call('ZREMRANGEBYSCORE', KEYS[5 * i + 5], '-inf', now - number_of(i, 6)) end
  local kept = redis.call('ZCOUNT', KEYS[5 * i + 2], since, '+inf')
  if reserved_in == i then kept = kept - 1 end
  if resumed_in == i then kept_in = kept end
  has_free = has_room(i, kept)
  -- A resumed job has waited its turn already, in this group or in another one.
  if not has_free or (resumed_in == 0 and redis.call('LLEN', KEYS[5 * i + 4]) > 0) then
    full = i
    break
  end
end
if full == 0 then
  for i = 1, count do
    redis.call('ZADD', KEYS[5 * i + 1], now, ARGV[1])
    if number_of(i, 5) > 0 then
      redis.call('ZADD', KEYS[5 * i + 5], now, ARGV[1])
      redis.call('PEXPIRE', KEYS[5 * i + 5], ARGV[4 * i + 6])
    end
    redis.call('SADD', KEYS[2], ARGV[4 * i + 3])
  end
  if resumed_in == 0 then return {1, 0} end
  forget_resumed()
  local waits = redis.call('LLEN', KEYS[5 * resumed_in + 4]) > 0
  if kept_in == 0 and waits and has_room(resumed_in, 0) then return {4, resumed_in} end
  return {1, 0}
end
if list and not redis.call('LPOS', list, ARGV[4]) then return {0, 0} end
local held = KEYS[5 * full + 4]
redis.call('SADD', KEYS[4], held)
redis.call('SADD', KEYS[2], ARGV[4 * full + 3])
redis.call('ZADD', KEYS[3], 'NX', now, ARGV[4 * full + 3])
if not list then redis.call('SET', KEYS[5], 1, 'EX', 600) end
-- A resumed job that lost its reservation has waited longest.
redis.call(resumed_in == full and 'RPUSH' or 'LPUSH', held, ARGV[5])
forget_resumed()
if list then redis.call('LREM', list, 1, ARGV[4]) end
return {has_free and 3 or 2, full}
