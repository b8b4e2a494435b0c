#!lua flags=allow-oom
-- Resume a paused job with its next tick: missed ticks are not made up for.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] paused: hash of name -> who paused it, when and why
-- ARGV[1] name
-- returns 1, or 0 if it was not paused
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], redis.call('TIME')[1])
return 1
