#!lua flags=allow-oom
-- Delete a control that has ended, with its count. A script, because it may be set again after it was read. The version
-- stays: every process that has read the control knows its end.
-- KEYS[1] controls by subject
-- KEYS[2] number of affected jobs by subject
-- KEYS[3] set of paused queues
-- ARGV[1] subject
-- ARGV[2] the control as it was read
-- ARGV[3] name of the queue, if the subject is one; else empty
-- ARGV[4] 1 if its time is over; 0 if another client has resumed the queue, and may have paused it again since
-- returns 1, or 0 if it was replaced
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then
  if ARGV[4] == '0' and redis.call('SISMEMBER', KEYS[3], ARGV[3]) == 1 then return 0 end
  redis.call('SREM', KEYS[3], ARGV[3])
end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
