#!lua flags=allow-oom
-- Acquire, renew or release a lease. One without an expiry, which another program has written, would never end.
-- KEYS[1] lease
-- ARGV[1] holder
-- ARGV[2] expiry in milliseconds; 0 to release it
-- returns 0 if the holder has the lease, or had it before the release; else the milliseconds until the other holder's
--   lease may end, or 1 if there was none to release
local holder = redis.call('GET', KEYS[1])
if ARGV[2] == '0' then return holder == ARGV[1] and redis.call('DEL', KEYS[1]) == 1 and 0 or 1 end
if holder and holder ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  if left >= 0 then return math.max(1, left) end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
