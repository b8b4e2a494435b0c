#!lua flags=allow-oom
-- Renew the liveness key of an owner, and register its lists. A fenced owner writes nothing.
-- Without lists, another process renews it: an owner that has left is not registered again, and added lists stay.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] its alive key
-- KEYS[3] registry of owners
-- KEYS[4] suspects
-- ARGV[1] identity
-- ARGV[2] expiry of the alive key in milliseconds
-- ARGV[3] its lists, as JSON; empty to keep the registered ones
-- returns 1, or 0 if it is not registered, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
elseif redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1], ARGV[1] .. ' empty')
return 1
