#!lua flags=allow-oom
-- Shut an owner out before its jobs are taken, unless it beats again, and note how many it held.
-- KEYS[1] alive key of the owner
-- KEYS[2] fenced mark of the owner
-- KEYS[3...] its private lists
-- ARGV[1] seconds that the mark stays
-- ARGV[2] 1 when the death is proven, whatever the alive key says; else 0
-- returns 1, also when the owner was fenced before; 0 when it lives
if redis.call('EXPIRE', KEYS[2], ARGV[1]) == 1 then return 1 end
if ARGV[2] == '0' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local held = 0
for i = 3, #KEYS do held = held + redis.call('LLEN', KEYS[i]) end
redis.call('SET', KEYS[2], held .. ' ' .. held, 'EX', ARGV[1])
redis.call('DEL', KEYS[1])
return 1
