#!lua flags=no-writes,allow-oom
-- Read the jobs of a sorted set that are due by the server's clock, and when the next one will be.
-- KEYS[1] sorted set
-- ARGV[1] the most jobs to read
-- returns {seconds until the next score as a string (negative when due, empty when the set is), {payload, …}}
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local members = redis.call('ZRANGE', KEYS[1], '-inf', string.format('%.6f', now), 'BYSCORE', 'LIMIT', 0, ARGV[1])
local rest = redis.call('ZRANGE', KEYS[1], #members, #members, 'WITHSCORES')
if #rest == 0 then return {'', members} end
return {string.format('%.6f', rest[2] - now), members}
