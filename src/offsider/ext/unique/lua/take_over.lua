#!lua flags=allow-oom
-- Take a second lock for a job that is about to move, unless another job holds it.
-- KEYS[1] lock
-- KEYS[2] index of locks
-- ARGV[1] value of the lock that the job holds
-- ARGV[2] remaining life of that lock in milliseconds
-- returns 1 if the job has the lock, else 0
local held = redis.call('GET', KEYS[1])
if held and string.match(held, '^%S+') ~= string.match(ARGV[1], '^%S+') then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[2], now + ARGV[2], string.sub(KEYS[1], #KEYS[2] + 2))
return 1
