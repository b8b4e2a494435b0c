#!lua flags=allow-oom
-- Renew the liveness key of an owner, and register its lists. A fenced owner writes nothing.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] its alive key
-- KEYS[3] registry of owners
-- KEYS[4] suspects
-- ARGV[1] identity
-- ARGV[2] its lists, as JSON
-- ARGV[3] expiry of the alive key in milliseconds
-- returns OK, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1], ARGV[1] .. ' empty')
return redis.status_reply('OK')
