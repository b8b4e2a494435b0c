#!lua
-- Claim a tick and push its job atomically: a kill can neither lose nor repeat it.
-- While memory is full the script is refused as a whole, like a push.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] paused: set of names
-- KEYS[3] history of the job
-- KEYS[4] lease
-- KEYS[5] set of known queues
-- KEYS[6] queue
-- ARGV[1] name
-- ARGV[2] tick, epoch seconds
-- ARGV[3] name of the queue
-- ARGV[4] payload; empty to push nothing
-- ARGV[5] line of the history
-- ARGV[6] maximum lines of the history
-- ARGV[7] life of the history, seconds
-- returns 1 claimed, 0 already handled, -1 not due by the server's clock, -2 paused, or the error of the push
local time = redis.call('TIME')
if time[1] + 0 < tonumber(ARGV[2]) then return -1 end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return -2 end
local last = redis.call('HGET', KEYS[1], ARGV[1])
if last and tonumber(last) >= tonumber(ARGV[2]) then return 0 end
if ARGV[4] ~= '' then
  local pushed = redis.pcall('LPUSH', KEYS[6], ARGV[4])
  if type(pushed) == 'table' then return pushed end
  redis.pcall('SADD', KEYS[5], ARGV[3])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.pcall('LPUSH', KEYS[3], ARGV[5])
redis.pcall('LTRIM', KEYS[3], 0, ARGV[6] - 1)
redis.pcall('EXPIRE', KEYS[3], ARGV[7])
redis.pcall('DEL', KEYS[4])
return 1
