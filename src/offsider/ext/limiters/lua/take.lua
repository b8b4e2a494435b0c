#!lua flags=allow-oom
-- Take from a limiter, or refuse. Uses the server's clock, which all processes share.
-- KEYS[1] state and statistics
-- KEYS[2] uses inside the window, oldest first, each as "first last amount"; or slots in use: holder -> end of its lock
--   timeout, in microseconds
-- ARGV[1] kind
-- ARGV[2] amount; 0 only reads
-- ARGV[3] limit
-- ARGV[4] microseconds: the interval, the time in which a full leaky bucket drains, or the lock timeout of a slot
-- ARGV[5] microseconds for which the caller can wait; -1 corrects an earlier estimate, in any case
-- ARGV[6] microseconds that the caller has waited
-- ARGV[7] milliseconds until an unused limiter is deleted
-- ARGV[8] holder of a slot
-- returns {1 taken, 0 wait, -1 refused; amount in use; microseconds to wait, of a slot until the next lock timeout}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local amount, limit, interval, patience = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local used, wait, take = 0, 0, nil
if ARGV[1] == 'concurrent' then
  if amount == 0 then return {1, redis.call('ZCOUNT', KEYS[2], string.format('(%.0f', now), '+inf'), 0} end
  local reclaimed = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if reclaimed > 0 then redis.call('HINCRBY', KEYS[1], 'reclaimed', reclaimed) end
  used = redis.call('ZCARD', KEYS[2])
  if used + amount > limit then wait = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] - now end
  take = function() redis.call('ZADD', KEYS[2], now + interval, ARGV[8]) end
elseif ARGV[1] == 'bucket' then
  local bucket = math.floor(now / interval)
  local state = redis.call('HMGET', KEYS[1], 'bucket', 'used')
  if tonumber(state[1]) == bucket then used = tonumber(state[2]) end
  wait = (bucket + 1) * interval - now
  take = function() redis.call('HSET', KEYS[1], 'bucket', bucket, 'used', used + amount) end
elseif ARGV[1] == 'window' then
  local function read(index)
    local entry = redis.call('LINDEX', KEYS[2], index)
    if entry then return unpack(cjson.decode('[' .. entry .. ']')) end
  end
  local _, last, count = read(0)
  used = last and tonumber(redis.call('HGET', KEYS[1], 'used')) or 0
  while last and last + interval <= now do
    redis.call('LPOP', KEYS[2])
    used = redis.call('HINCRBY', KEYS[1], 'used', -count)
    _, last, count = read(0)
  end
  local freed, index = 0, 0
  while last and used - freed + amount > limit do
    wait, freed, index = last + interval - now, freed + count, index + 1
    _, last, count = read(index)
  end
  take = function()
    -- Uses within a thousandth of the interval share an entry, so a list has at most 1,001. It expires with the last.
    local first, latest, before = read(-1)
    local joins = first and now - first < interval / 1000
    if joins then redis.call('RPOP', KEYS[2]) else first, latest, before = now, now, 0 end
    redis.call('RPUSH', KEYS[2], string.format('%.0f,%.0f,%.0f', first, math.max(latest, now), before + amount))
    redis.call('HSET', KEYS[1], 'used', used + amount)
  end
else
  local state = redis.call('HMGET', KEYS[1], 'level', 'at')
  if state[1] then used = math.max(0, state[1] - math.max(0, now - state[2]) * limit / interval) end
  wait = math.ceil((used + amount - limit) * interval / limit)
  take = function() redis.call('HSET', KEYS[1], 'level', math.max(0, used + amount), 'at', now) end
end
if amount == 0 then return {1, math.ceil(used), 0} end
local reply = {1, math.ceil(used + amount), 0}
if patience < 0 then
  take()
elseif used + amount <= limit + 0.000001 then
  take()
  redis.call('HINCRBY', KEYS[1], 'allowed', 1)
  if tonumber(ARGV[6]) > 0 then
    redis.call('HINCRBY', KEYS[1], 'waited', 1)
    redis.call('HINCRBY', KEYS[1], 'wait_us', ARGV[6])
  end
elseif wait > patience and (ARGV[1] ~= 'concurrent' or patience == 0) then -- a slot may be freed at any time
  redis.call('HINCRBY', KEYS[1], 'overages', 1)
  reply = {-1, math.ceil(used), wait}
else
  return {0, math.ceil(used), wait}
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
redis.call('PEXPIRE', KEYS[2], ARGV[7])
return reply
