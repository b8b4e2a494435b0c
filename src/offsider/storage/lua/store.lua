#!lua
-- Store jobs in one queue or in the schedule, all or none.
-- KEYS[1] set of known queues
-- KEYS[2] the queue, or the schedule
-- ARGV[1] name of the queue; empty for scheduled jobs
-- ARGV[2...] payload of each job; of scheduled jobs, due time in epoch seconds and payload of each
-- returns 1
local command = ARGV[1] ~= '' and 'LPUSH' or 'ZADD'
if ARGV[1] ~= '' then redis.pcall('SADD', KEYS[1], ARGV[1]) end
local reply = redis.pcall(command, KEYS[2], unpack(ARGV, 2))
return type(reply) == 'table' and reply.err and reply or 1
