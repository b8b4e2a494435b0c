#!lua flags=no-writes,allow-oom
-- Count the jobs in private lists. A script, so that a worker of many queues asks once and not once for each.
-- KEYS[1...] private lists
-- returns how many jobs lie in all of them
local found = 0
for i = 1, #KEYS do found = found + redis.call('LLEN', KEYS[i]) end
return found
