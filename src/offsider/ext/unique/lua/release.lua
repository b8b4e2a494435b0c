#!lua flags=allow-oom
-- Free a lock if this job still holds it.
-- KEYS[1] lock
-- KEYS[2] index of locks
-- ARGV[1] jid of the job
-- ARGV[2] 1 to keep the lock of a job that runs once more
-- ARGV[3] empty, or the times of the lock and of the job's last start: free it only if they are unchanged
-- returns 0 if the job does not hold the lock, 1 if freed, 2 if the job runs once more
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
