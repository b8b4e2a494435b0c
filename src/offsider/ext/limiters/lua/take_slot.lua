#!lua flags=allow-oom
-- Take a slot of a concurrent limiter, or refuse. Reclaims the slots of holders that exceeded their lock timeout.
-- KEYS[1] statistics
-- KEYS[2] slots in use: holder -> end of its lock timeout, in microseconds
-- ARGV[1] holder
-- ARGV[2] limit
-- ARGV[3] microseconds of the lock timeout
-- ARGV[4] microseconds for which the caller can wait
-- ARGV[5] microseconds that the caller has waited
-- ARGV[6] milliseconds until an unused limiter is deleted
-- returns {1 taken, 0 wait, -1 refused; slots in use; microseconds until the next lock timeout}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reclaimed = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if reclaimed > 0 then redis.call('HINCRBY', KEYS[1], 'reclaimed', reclaimed) end
local used, reply = redis.call('ZCARD', KEYS[2]), nil
if used < tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
  redis.call('HINCRBY', KEYS[1], 'allowed', 1)
  if tonumber(ARGV[5]) > 0 then
    redis.call('HINCRBY', KEYS[1], 'waited', 1)
    redis.call('HINCRBY', KEYS[1], 'wait_us', ARGV[5])
  end
  reply = {1, used + 1, 0}
else
  local wait = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] - now
  if tonumber(ARGV[4]) > 0 then return {0, used, wait} end
  redis.call('HINCRBY', KEYS[1], 'overages', 1)
  reply = {-1, used, wait}
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[6])
return reply
