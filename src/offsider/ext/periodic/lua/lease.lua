#!lua flags=allow-oom
-- Take the lease to prepare the job of a tick, so that client middleware, which may take locks, runs once.
-- It only saves work; the claim decides.
-- KEYS[1] lease
-- ARGV[1] identity of the caller
-- ARGV[2] life in milliseconds
-- returns 0 if the caller has the lease, else the milliseconds until it may be free
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return math.max(1, redis.call('PTTL', KEYS[1]))
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
