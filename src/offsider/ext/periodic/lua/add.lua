#!lua
-- Add a periodic job at run time, or change it: its ticks count from now on.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] entries: hash of name -> what was added at run time
-- KEYS[3] revision
-- ARGV[1] name
-- ARGV[2] entry
-- returns 1 when it is new, 0 when it was changed
local new = redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], redis.call('TIME')[1])
redis.call('INCR', KEYS[3])
return new
