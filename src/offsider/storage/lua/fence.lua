#!lua flags=allow-oom
-- Shut an owner out before its jobs are taken, unless it beats again. Note how many jobs it held, and how many of
-- them are to have a strike: none when it was on its way out, and somebody only had no patience with it.
-- KEYS[1] alive key of the owner
-- KEYS[2] fenced mark of the owner
-- KEYS[3] suspects, with the notes of who stops
-- KEYS[4...] its private lists
-- ARGV[1] seconds that the mark stays
-- ARGV[2] identity of the owner
-- ARGV[3] 1 when the death is proven, whatever the alive key says; else 0
-- returns 1, also when the owner was fenced before; 0 when it lives
if redis.call('EXPIRE', KEYS[2], ARGV[1]) == 1 then return 1 end
if ARGV[3] == '0' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local held = 0
for i = 4, #KEYS do held = held + redis.call('LLEN', KEYS[i]) end
local guilty = held
if redis.call('HEXISTS', KEYS[3], ARGV[2] .. ' stopping') == 1 then guilty = 0 end
redis.call('SET', KEYS[2], held .. ' ' .. guilty, 'EX', ARGV[1])
redis.call('DEL', KEYS[1])
return 1
