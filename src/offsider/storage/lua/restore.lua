#!lua flags=allow-oom
-- Move a job from quarantine back to its origin: to the tail of a queue, or into a set.
-- KEYS[1] quarantine: ids scored by expiry in epoch seconds
-- KEYS[2] quarantined jobs by id
-- KEYS[3] queue or sorted set
-- KEYS[4] set of known queues
-- ARGV[1] id
-- ARGV[2] name of the queue; empty for a set
-- ARGV[3] score in the set
-- returns 1, or 0 if it is no longer in quarantine
local stored = redis.call('HGET', KEYS[2], ARGV[1])
if not stored then return 0 end
local payload = string.sub(stored, string.find(stored, '\n', 1, true) + 1)
if ARGV[2] ~= '' then
  redis.call('LPUSH', KEYS[3], payload)
  redis.pcall('SADD', KEYS[4], ARGV[2])
else
  redis.call('ZADD', KEYS[3], ARGV[3], payload)
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
