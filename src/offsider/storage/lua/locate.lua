#!lua flags=no-writes,allow-oom
-- Find the position of a job in a queue. A script, because two reads must be atomic, and a full server refuses MULTI.
-- KEYS[1] queue
-- ARGV[1] payload
-- returns the number of jobs before it, or false if it is missing
local place = redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', -1)
return place and redis.call('LLEN', KEYS[1]) - 1 - place
