#!lua flags=allow-oom
-- Free the slots of a process that was declared dead or has left. Checked again here: it may be back.
-- KEYS[1] slots in use
-- KEYS[2] registry of owners
-- KEYS[3] fenced mark of the process
-- ARGV[1] identity of the process
-- ARGV[2...] members: its runs
-- returns how many slots were freed
local registered = redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1
if registered and redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
local freed = 0
for i = 2, #ARGV do freed = freed + redis.call('ZREM', KEYS[1], ARGV[i]) end
return freed
