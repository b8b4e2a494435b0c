#!lua flags=allow-oom
-- Fence an owner before its jobs are reclaimed, unless it is alive. Store how many jobs it held, and how many of them
-- get a strike: none if the owner was stopping and was killed before it exited. Append its death to the event log, once.
-- KEYS[1] alive key of the owner
-- KEYS[2] fenced mark of the owner
-- KEYS[3] suspects, with the notes of stopping owners
-- KEYS[4] event log
-- KEYS[5...] its private lists
-- ARGV[1] expiry of the mark in seconds
-- ARGV[2] identity of the owner
-- ARGV[3] how its process ended, if that is proven, so that the alive key is ignored; else empty
-- ARGV[4] maximum number of events
-- ARGV[5] kind of the event
-- ARGV[6] text of a death that is not proven
-- returns 1, also if the owner was fenced before; 0 if it is alive
if redis.call('EXPIRE', KEYS[2], ARGV[1]) == 1 then return 1 end
if ARGV[3] == '' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local held = 0
for i = 5, #KEYS do held = held + redis.call('LLEN', KEYS[i]) end
local guilty = held
if redis.call('HEXISTS', KEYS[3], ARGV[2] .. ' stopping') == 1 then guilty = 0 end
redis.call('SET', KEYS[2], held .. ' ' .. guilty, 'EX', ARGV[1])
redis.call('DEL', KEYS[1])
local how = ARGV[3] ~= '' and ARGV[3] or ARGV[6]
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[4], '*', 'kind', ARGV[5], 'subject', ARGV[2], 'how', how, 'jobs', held)
return 1
