#!lua flags=allow-oom
-- Record in a lock that its job starts.
-- KEYS[1] lock
-- ARGV[1] jid of the job
-- returns 1 if the job holds the lock, else 0
local held = redis.call('GET', KEYS[1])
local jid, taken, rest = string.match(held or '', '^(%S+) (%d+) %d+ (.*)$')
if jid ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('SET', KEYS[1], jid .. ' ' .. taken .. ' ' .. now .. ' ' .. rest, 'KEEPTTL')
return 1
