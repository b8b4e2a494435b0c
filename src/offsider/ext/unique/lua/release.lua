#!lua flags=allow-oom
-- Free a lock, if it is still held by this job.
-- KEYS[1] lock
-- KEYS[2] index of locks
-- ARGV[1] jid of the job
-- ARGV[2] 1 when a job that shall run once more keeps its lock for that
-- ARGV[3] empty, or when the lock was taken and when its job last began to run: then only if that is still so
-- returns 0 when the lock is not the job's, 1 when it was freed, 2 when the job shall run once more
local held = redis.call('GET', KEYS[1])
if not held then
  redis.call('SREM', KEYS[2], string.sub(KEYS[1], #KEYS[2] + 2))
  return 0
end
local jid, moved, again = string.match(held, '^(%S+) (%d+ %d+) (%a+)')
if jid ~= ARGV[1] then return 0 end
if ARGV[3] ~= '' and moved ~= ARGV[3] then return 0 end
if ARGV[2] == '1' and again == 'again' then return 2 end
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], string.sub(KEYS[1], #KEYS[2] + 2))
return 1
