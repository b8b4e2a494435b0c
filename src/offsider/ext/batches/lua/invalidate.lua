#!lua flags=allow-oom
-- Mark a batch as invalid, if it exists: a plain HSET would create one.
-- KEYS[1] batch
-- returns whether it exists
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local time = redis.call('TIME')
redis.call('HSETNX', KEYS[1], 'invalidated_at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return 1
