#!lua
-- Add jobs to their batch, in the script that stores them.
-- KEYS[1] batch
-- KEYS[2] jids of its members
-- ARGV[1...] jids
-- returns the number of new members
local new = 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 1, #ARGV, 1000 do new = new + redis.call('SADD', KEYS[2], unpack(ARGV, i, math.min(i + 999, #ARGV))) end
if new == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], 'total', new)
if redis.call('SCARD', KEYS[2]) == new then redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[1])) end
return new
