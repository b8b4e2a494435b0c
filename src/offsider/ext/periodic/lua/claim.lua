#!lua
-- Claim a tick and push its job atomically: a kill can neither lose nor repeat it. The script that pushes the job is
-- the function `push`, which is put in front. While memory is full the script is refused as a whole, like a push.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] paused: hash of name -> who paused it, when and why
-- KEYS[3] history of the job
-- KEYS[4] lease
-- KEYS[5...] keys of the push
-- ARGV[1] name
-- ARGV[2] tick, epoch seconds
-- ARGV[3] line of the history
-- ARGV[4] maximum lines of the history
-- ARGV[5] life of the history, seconds
-- ARGV[6...] arguments of the push
-- returns {1 claimed, 0 already handled, -1 not due by the server's clock, -2 paused; reply of the push}, or its error
local time = redis.call('TIME')
if time[1] + 0 < tonumber(ARGV[2]) then return {-1, false} end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return {-2, false} end
local last = redis.call('HGET', KEYS[1], ARGV[1])
if last and tonumber(last) >= tonumber(ARGV[2]) then return {0, false} end
local pushed = push({unpack(KEYS, 5)}, {unpack(ARGV, 6)})
if type(pushed) == 'table' and pushed.err then return pushed end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.pcall('LPUSH', KEYS[3], ARGV[3])
redis.pcall('LTRIM', KEYS[3], 0, ARGV[4] - 1)
redis.pcall('EXPIRE', KEYS[3], ARGV[5])
redis.pcall('DEL', KEYS[4])
return {1, pushed or false}
