#!lua flags=no-writes,allow-oom
-- Count the jobs in lists. A script, so that a worker of many queues sends one command.
-- KEYS[1...] lists
-- returns the total number of jobs
local found = 0
for i = 1, #KEYS do found = found + redis.call('LLEN', KEYS[i]) end
return found
