#!lua flags=allow-oom
-- Renew the liveness key of a registered owner on its behalf. Its registration stays unchanged: an owner that has left
-- is not registered again, and added lists stay.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] its alive key
-- KEYS[3] registry of owners
-- KEYS[4] suspects
-- ARGV[1] identity
-- ARGV[2] expiry of the alive key in milliseconds
-- returns 1, or 0 if the owner is fenced or not registered
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1], ARGV[1] .. ' empty')
return 1
