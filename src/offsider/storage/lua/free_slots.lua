#!lua flags=allow-oom
-- Free the slots of a run, together with the outcome of its job.
-- KEYS[1...] of each group: slots in use, list of held jobs
-- ARGV[1] member: the run
-- returns the number of held jobs of these groups
local held = 0
for i = 1, #KEYS, 2 do
  redis.call('ZREM', KEYS[i], ARGV[1])
  held = held + redis.call('LLEN', KEYS[i + 1])
end
return held
