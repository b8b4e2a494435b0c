#!lua flags=allow-oom
-- Prolong the life of a registered owner on its behalf. Its registration stays as the owner wrote it: one that has left
-- is not put back, and one that widened its lists keeps them.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] its alive key
-- KEYS[3] registry of owners
-- KEYS[4] suspects
-- ARGV[1] identity
-- ARGV[2] liveness life in milliseconds
-- returns 1, or 0 when the owner is fenced or not registered
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1], ARGV[1] .. ' empty')
return 1
