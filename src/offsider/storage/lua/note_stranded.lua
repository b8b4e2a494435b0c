#!lua flags=allow-oom
-- Store why a job of a class was stranded, and count it.
-- KEYS[1] hash of reasons by class
-- KEYS[2] hash of counts by class
-- ARGV[1] class
-- ARGV[2] reason
-- ARGV[3] seconds until the reasons expire
-- ARGV[4] maximum number of classes
-- returns nothing
local most = tonumber(ARGV[4])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= most then
  -- Classes with stranded jobs are stored again within minutes.
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 or redis.call('HLEN', KEYS[2]) < most then
  redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
end
