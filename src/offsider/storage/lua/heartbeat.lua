#!lua flags=allow-oom
-- Write a process to Sidekiq's registry.
-- A script, because a full server refuses HSET and SADD, and a worker that drains a full server must stay visible on
-- the web pages.
-- KEYS[1] set of processes
-- KEYS[2] hash of the process
-- KEYS[3] hash of its running jobs
-- ARGV[1] identity
-- ARGV[2] seconds until the hashes expire
-- ARGV[3] number of fields and values of the process hash
-- ARGV[4...] these fields and values, then those of the running jobs
-- returns 1 if the process was registered before, else 0
local count = tonumber(ARGV[3])
redis.call('SADD', KEYS[1], ARGV[1])
local added = redis.call('HSET', KEYS[2], unpack(ARGV, 4, 3 + count))
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('UNLINK', KEYS[3])
for i = 4 + count, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
end
if #ARGV > 3 + count then redis.call('EXPIRE', KEYS[3], ARGV[2]) end
return added == 0 and 1 or 0
