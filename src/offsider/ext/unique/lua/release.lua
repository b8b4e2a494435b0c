#!lua flags=allow-oom
-- Release a lock if this job still holds it.
-- KEYS[1] lock
-- KEYS[2] index of locks
-- ARGV[1] jid of the job
-- ARGV[2] 1 to keep the lock of a job that runs once more
-- returns 0 if the job does not hold the lock, 1 if released, 2 if the job runs once more
local jid, again = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) %d+ (%a+)')
if jid ~= ARGV[1] then return 0 end
if ARGV[2] == '1' and again == 'again' then return 2 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], string.sub(KEYS[1], #KEYS[2] + 2))
return 1
