#!lua flags=allow-oom
-- Add an activity report to the process hash in Sidekiq's registry, with the server's time, and update its running jobs.
-- A script, because a plain HSET would recreate the hash of a process that has left, without an expiry.
-- KEYS[1] hash of the process
-- KEYS[2] hash of its running jobs
-- ARGV[1] number of running jobs
-- ARGV[2] JSON of the report, without the closing brace
-- ARGV[3] seconds until the hash of running jobs expires
-- ARGV[4] number of ended jobs; -1: forget all
-- ARGV[5...] thread ids of the ended jobs, then thread id and job of each new one
-- returns 1, or 0 if the hash does not exist
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'busy', ARGV[1], 'activity', ARGV[2] .. ',"at":' .. time[1] .. '.' .. string.format('%06d', time[2]) .. '}')
local ended = tonumber(ARGV[4])
if ended < 0 then
  redis.call('UNLINK', KEYS[2])
  ended = 0
end
for i = 5, 4 + ended do
  redis.call('HDEL', KEYS[2], ARGV[i])
end
for i = 5 + ended, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
