#!lua flags=allow-oom
-- Assign a tick to the first server that asks, if two versions of a program push the same job to two servers.
-- KEYS[1] hash of name -> "epoch seconds of the latest tick, server"
-- ARGV[1] name of the periodic job
-- ARGV[2] tick, epoch seconds
-- ARGV[3] name of the asking server
-- returns 1 if the asking server has the tick, 0 if another server has it
local known = redis.call('HGET', KEYS[1], ARGV[1])
local tick, server = string.match(known or '', '^(%d+) (.+)$')
if tick and tonumber(tick) >= tonumber(ARGV[2]) then return server == ARGV[3] and 1 or 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return 1
