#!lua flags=allow-oom
-- Write that a job runs, unless it was cancelled while it waited. Its arguments and failures stay.
-- KEYS[1] state of the job
-- ARGV[1] life in milliseconds
-- ARGV[2...] fields and values
-- returns 1 if the job was cancelled and must not run, else 0
if redis.call('HEXISTS', KEYS[1], 'cancel') == 1 then return 1 end
redis.call('HDEL', KEYS[1], 'due', 'progress', 'ms', 'error_class', 'error_message', 'result', 'why', 'ended')
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 0
