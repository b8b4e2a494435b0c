#!lua flags=allow-oom
-- Hold jobs of a group that has no free slot, all in one step.
-- Redis does not roll back: look first, write the destination, remove the source last.
-- KEYS[1] fenced mark of the process
-- KEYS[2] set of groups with slots or held jobs
-- KEYS[3] groups with held jobs, by the time of their next check
-- KEYS[4] set of other lists with jobs
-- KEYS[5] slots in use
-- KEYS[6] list of held jobs
-- KEYS[7...] private list of each job
-- ARGV[1] name of the group
-- ARGV[2] limit (0: none, negative: nothing runs)
-- ARGV[3...] of each job: payload as claimed, payload to hold
-- returns {number of jobs that were held; 1 if a slot is free}
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, 0} end
redis.call('SADD', KEYS[4], KEYS[6])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[1])
local held = 0
for i = 1, #KEYS - 6 do
  local list = KEYS[6 + i]
  local raw = ARGV[1 + 2 * i]
  if redis.call('LPOS', list, raw) then
    redis.call('LPUSH', KEYS[6], ARGV[2 + 2 * i])
    redis.call('LREM', list, 1, raw)
    held = held + 1
  end
end
local limit = tonumber(ARGV[2])
return {held, (limit == 0 or redis.call('ZCARD', KEYS[5]) < limit) and 1 or 0}
