#!lua flags=allow-oom
-- Move jobs out of a list, a sorted set or the quarantine: to queues, into a set, into the quarantine, or nowhere.
-- Redis does not roll back: a job is found first, then written to its destination, and removed from its place last.
-- LREM would search a whole list for each job. A job is therefore searched near its last known position and overwritten
-- with a mark, and one LREM removes all marks. Other clients never see a mark.
-- KEYS[1] list, sorted set, or index of the quarantine (ids scored by expiry in epoch seconds)
-- KEYS[2] set with the names of the destination lists
-- KEYS[3] quarantined jobs by id
-- KEYS[4...] list or sorted set for each job; or one dead set or index of the quarantine
-- ARGV[1] place: list, set, due (a set, of which only due jobs move), or quarantine
-- ARGV[2] destination: list, set, dead, quarantine, or none to delete the jobs
-- ARGV[3] retention in seconds in the dead set or the quarantine
-- ARGV[4] size limit of the dead set
-- ARGV[5] a mark that no job is equal to
-- ARGV[6...] job, or its id in quarantine; position from the end of a list when it was read (-1 is the last); what to
--   store: the job, or its head in quarantine; name of the list, score, or id in quarantine; for each job
-- returns {1, 0 if it is missing or not due, -1 if its destination refuses it; for each}
local place, target, time = ARGV[1], ARGV[2], redis.call('TIME')
local now = time[1] + time[2] / 1000000
local taken, moved, shift, looks, count, deepest = {}, {}, 0, 0, 0, 0
local FURTHEST = 1000 -- positions that a job may have moved toward the end since it was read

local function position(job, seen)
  if seen + shift < 0 and redis.call('LINDEX', KEYS[1], seen + shift) == job then return seen + shift end
  if looks == 3 then return end
  looks = looks + 1
  -- Workers have taken jobs from the end: search nearby, then further away.
  local first, ahead = math.max(seen, -redis.call('LLEN', KEYS[1])), 0
  while ahead <= FURTHEST and first + ahead < 0 do
    local width = math.max(10, ahead)
    local near = redis.call('LRANGE', KEYS[1], first + ahead, math.min(-1, first + ahead + width - 1))
    for at, other in ipairs(near) do
      if other == job then
        shift = first + ahead + at - 1 - seen
        return seen + shift
      end
    end
    ahead = ahead + width
  end
end

local function find(job, seen)
  if place == 'list' then
    local at = position(job, tonumber(seen))
    return not taken[at or 0] and at
  elseif place == 'quarantine' then
    return redis.call('HGET', KEYS[3], job)
  end
  local score = redis.call('ZSCORE', KEYS[1], job)
  return not (score and place == 'due' and tonumber(score) > now) and score
end

local function write(i, job, payload, detail)
  local reply = 1
  if target == 'list' then
    redis.pcall('SADD', KEYS[2], detail)
    reply = redis.pcall('LPUSH', KEYS[3 + i], payload)
  elseif target == 'set' then
    reply = redis.pcall('ZADD', KEYS[3 + i], detail, payload)
  elseif target == 'dead' then
    reply = redis.pcall('ZADD', KEYS[4], string.format('%.6f', now), payload)
  elseif target == 'quarantine' then
    reply = redis.pcall('HSET', KEYS[3], detail, payload .. '\n' .. job)
    if type(reply) ~= 'table' then reply = redis.pcall('ZADD', KEYS[4], math.floor(now) + ARGV[3], detail) end
  end
  return type(reply) ~= 'table'
end

for i = 1, (#ARGV - 5) / 4 do
  local job, payload, detail = ARGV[4 * i + 2], ARGV[4 * i + 4], ARGV[4 * i + 5]
  local found = find(job, ARGV[4 * i + 3])
  moved[i] = found and 1 or 0
  if found and place == 'quarantine' and payload == '' then
    payload = string.sub(found, string.find(found, '\n', 1, true) + 1)
  end
  if found and not write(i, job, payload, detail) then
    moved[i] = -1
  elseif found and place == 'list' then
    taken[found] = true
    count, deepest = count + 1, math.max(deepest, -found)
  elseif found and place == 'quarantine' then
    redis.call('ZREM', KEYS[1], job)
    redis.call('HDEL', KEYS[3], job)
  elseif found and not (KEYS[1] == KEYS[target == 'set' and 3 + i or 4] and job == payload) then -- it has a new score
    redis.call('ZREM', KEYS[1], job)
  end
end
for at in pairs(taken) do redis.call('LSET', KEYS[1], at, ARGV[5]) end
-- Start at the nearer end.
if count > 0 and deepest < redis.call('LLEN', KEYS[1]) / 2 then count = -count end
if count ~= 0 then redis.call('LREM', KEYS[1], count, ARGV[5]) end
if target == 'dead' then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('%.6f', now - ARGV[3]))
  redis.pcall('ZREMRANGEBYRANK', KEYS[4], 0, -ARGV[4])
end
return moved
