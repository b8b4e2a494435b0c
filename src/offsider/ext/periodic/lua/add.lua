#!lua
-- Add or change a periodic job at run time: its ticks count from now on.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] entries: hash of name -> entry added at run time
-- ARGV[1] name
-- ARGV[2] entry
-- returns 1 if it is new, 0 if it was changed
local new = redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], redis.call('TIME')[1])
return new
