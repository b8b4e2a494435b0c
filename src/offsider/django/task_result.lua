#!lua flags=allow-oom
-- Write the state of a task.
-- KEYS[1] the task
-- ARGV[1] new: if there is none; run: if there is one; lost: if there is one that has not finished
-- ARGV[2] life in milliseconds
-- ARGV[3...] fields and values
-- returns 1 if it was written
local stored = redis.call('HMGET', KEYS[1], 'task', 'finished_at')
if (ARGV[1] == 'new') == (stored[1] ~= false) or (ARGV[1] == 'lost' and stored[2]) then return 0 end
redis.call('HDEL', KEYS[1], 'finished_at')
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
