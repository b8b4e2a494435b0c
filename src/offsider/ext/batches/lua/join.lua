#!lua
-- Add a job to its batch, in the script that stores the job.
-- KEYS[1] batch
-- KEYS[2] jids of its members
-- ARGV[1] jid
-- returns 1 if it is a new member
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], 'total', 1)
if redis.call('SCARD', KEYS[2]) == 1 then redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[1])) end
return 1
