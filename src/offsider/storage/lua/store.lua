#!lua
-- Store jobs in one queue or in the schedule, all or none.
-- KEYS[1] set of known queues
-- KEYS[2] the queue, or the schedule
-- ARGV[1] name of the queue; empty for scheduled jobs
-- ARGV[2...] payload, due time in epoch seconds or empty; for each job
-- returns 1 for each job
local command, stored = ARGV[1] ~= '' and {'LPUSH', KEYS[2]} or {'ZADD', KEYS[2]}, {}
for i = 2, #ARGV, 2 do
  if ARGV[1] == '' then command[#command + 1] = ARGV[i + 1] end
  command[#command + 1] = ARGV[i]
  stored[#stored + 1] = 1
end
if ARGV[1] ~= '' then redis.pcall('SADD', KEYS[1], ARGV[1]) end
local reply = redis.pcall(unpack(command))
return type(reply) == 'table' and reply.err and reply or stored
