#!lua flags=allow-oom
-- Add an activity report to the process hash in Sidekiq's registry, with the server's time.
-- A script, because a plain HSET would recreate the hash of a process that has left, without an expiry.
-- KEYS[1] hash of the process
-- ARGV[1] number of running jobs
-- ARGV[2] JSON of the report, without the closing brace
-- returns 1, or 0 if the hash does not exist
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'busy', ARGV[1], 'activity', ARGV[2] .. ',"at":' .. time[1] .. '.' .. string.format('%06d', time[2]) .. '}')
return 1
