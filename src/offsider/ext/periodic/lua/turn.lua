#!lua flags=allow-oom
-- Whose turn it is to prepare the job of a tick: client middleware, which may take locks, shall run once.
-- It spares work, and decides nothing: the claim does.
-- KEYS[1] turn
-- ARGV[1] who asks
-- ARGV[2] life in milliseconds
-- returns 0 when it is the caller's, else the milliseconds until it may be free
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return math.max(1, redis.call('PTTL', KEYS[1]))
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
