#!lua flags=no-writes,allow-oom
-- Read the processes that died with a job, by the server's clock.
-- KEYS[1] strikes of the job
-- ARGV[1] expiry of a strike in seconds
-- returns {identity, …}, oldest first
local time = redis.call('TIME')
return redis.call('ZRANGE', KEYS[1], string.format('%.6f', time[1] + time[2] / 1000000 - ARGV[1]), '+inf', 'BYSCORE')
