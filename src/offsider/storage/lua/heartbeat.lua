#!lua flags=allow-oom
-- Write a process to Sidekiq's registry, and its queues to the set of queues, from which a clear removes them.
-- A script, because a full server refuses HSET and SADD, and a worker that drains a full server must stay visible on
-- the web pages.
-- KEYS[1] set of processes
-- KEYS[2] hash of the process
-- KEYS[3] hash of its running jobs
-- KEYS[4] set of queues
-- ARGV[1] identity
-- ARGV[2] seconds until the hashes expire
-- ARGV[3] number of fields and values of the process hash
-- ARGV[4] number of queues
-- ARGV[5...] these fields and values, then the queues, then fields and values of the running jobs
-- returns 1 if the process was registered before, else 0
local count = tonumber(ARGV[3])
local work = 5 + count + tonumber(ARGV[4])
redis.call('SADD', KEYS[1], ARGV[1])
local added = redis.call('HSET', KEYS[2], unpack(ARGV, 5, 4 + count))
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('UNLINK', KEYS[3])
for i = work, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
end
if #ARGV >= work then redis.call('EXPIRE', KEYS[3], ARGV[2]) end
for i = 5 + count, work - 1 do redis.pcall('SADD', KEYS[4], ARGV[i]) end -- the key can be no set
return added == 0 and 1 or 0
