#!lua flags=no-writes,allow-oom
-- Where a job lies in a queue: two reads of one moment, which a full server allows in no MULTI.
-- KEYS[1] queue
-- ARGV[1] payload
-- returns how many jobs run before it, or false when it is not there
local place = redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', -1)
return place and redis.call('LLEN', KEYS[1]) - 1 - place
