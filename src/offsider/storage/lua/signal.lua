#!lua
-- Keep a signal for a job, and let it run at once if it waits for this one. The first one with a name counts.
-- KEYS[1] steps of the job
-- KEYS[2] schedule
-- ARGV[1] name
-- ARGV[2] value
-- ARGV[3] expiry in seconds of a job without steps
-- returns 1, or 0 if there was one with this name
if redis.call('HSETNX', KEYS[1], 'signal:' .. ARGV[1], ARGV[2]) == 0 then return 0 end
if redis.call('TTL', KEYS[1]) < 0 then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
local name, payload = string.match(redis.call('HGET', KEYS[1], 'waits') or '', '^([^\n]*)\n(.*)$')
if name == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'waits')
  redis.call('ZADD', KEYS[2], 'XX', redis.call('TIME')[1], payload)
end
return 1
