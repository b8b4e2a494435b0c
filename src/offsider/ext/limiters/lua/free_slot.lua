#!lua flags=allow-oom
-- Free a slot of a concurrent limiter and add the time for which it was held to the statistics.
-- KEYS[1] statistics
-- KEYS[2] slots in use: holder -> end of its lock timeout, in microseconds
-- ARGV[1] holder
-- ARGV[2] microseconds of the lock timeout
-- returns 1, or 0 if the slot was reclaimed
local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ends then return 0 end
local time = redis.call('TIME')
local held = time[1] * 1000000 + time[2] - (ends - ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HINCRBY', KEYS[1], 'held_us', string.format('%.0f', math.max(0, held)))
return 1
