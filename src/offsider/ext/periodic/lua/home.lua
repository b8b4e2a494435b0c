#!lua flags=allow-oom
-- Which server sees to a tick, when programs of two versions send the same job to two: the first that asks, once.
-- KEYS[1] homes: hash of name -> "epoch seconds of the latest tick, server"
-- ARGV[1] name
-- ARGV[2] the tick, epoch seconds
-- ARGV[3] name of the server that asks
-- returns 1 when it is that server's, 0 when another one has it
local known = redis.call('HGET', KEYS[1], ARGV[1])
local tick, server = string.match(known or '', '^(%d+) (.+)$')
if tick and tonumber(tick) >= tonumber(ARGV[2]) then return server == ARGV[3] and 1 or 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return 1
