#!lua flags=allow-oom
-- Write a process to Sidekiq's registry: a heartbeat, which registers it and its queues, or a report of its changes.
-- A script, because a full server refuses HSET and SADD, and a worker that drains a full server must stay visible on
-- the web pages. And a plain HSET would recreate the hash of a process that has left, without an expiry.
-- KEYS[1] set of processes
-- KEYS[2] hash of the process
-- KEYS[3] hash of its running jobs
-- KEYS[4] set of queues, from which a clear removes them
-- ARGV[1] identity
-- ARGV[2] seconds until the hashes expire
-- ARGV[3] 1 for a heartbeat, 0 for a report
-- ARGV[4] JSON of the activity, without the closing brace; the server's time is added
-- ARGV[5] number of fields and values of the process hash
-- ARGV[6] number of queues
-- ARGV[7] number of ended jobs; -1 for all
-- ARGV[8...] these fields and values, the queues, the thread ids of the ended jobs, then thread id and job of new ones
-- returns 1 if the process was registered before, else 0
local known = redis.call('EXISTS', KEYS[2])
if known == 0 and ARGV[3] == '0' then return 0 end
local queues = 8 + tonumber(ARGV[5])
local ended = queues + tonumber(ARGV[6])
local begun = ended + math.max(0, tonumber(ARGV[7]))
local time = redis.call('TIME')
local activity = ARGV[4] .. ',"at":' .. time[1] .. '.' .. string.format('%06d', time[2]) .. '}'
redis.call('HSET', KEYS[2], 'activity', activity, unpack(ARGV, 8, queues - 1))
if ARGV[3] == '1' then
  redis.call('SADD', KEYS[1], ARGV[1]) -- at every beat: a pruner that read the expired hash may have removed it since
  redis.call('EXPIRE', KEYS[2], ARGV[2])
end
if queues < ended then redis.pcall('SADD', KEYS[4], unpack(ARGV, queues, ended - 1)) end -- the key can be no set
if ARGV[7] == '-1' then redis.call('UNLINK', KEYS[3]) end
for i = ended, begun - 1 do
  redis.call('HDEL', KEYS[3], ARGV[i])
end
for i = begun, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
end
if begun <= #ARGV then redis.call('EXPIRE', KEYS[3], ARGV[2]) end
return known
