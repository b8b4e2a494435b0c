#!lua flags=allow-oom
-- Become or remain the leader.
-- KEYS[1] leader
-- ARGV[1] identity of the process
-- ARGV[2] expiry in milliseconds
-- returns 0 if this process leads, else the milliseconds until the other leader's lease may end
local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  return left > 0 and left or tonumber(ARGV[2])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
