#!lua flags=allow-oom
-- Acquire or renew a lease.
-- KEYS[1] lease
-- ARGV[1] holder
-- ARGV[2] expiry in milliseconds
-- returns 0 if the holder has the lease, else the milliseconds until the other holder's lease may end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  return left > 0 and left or tonumber(ARGV[2])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
