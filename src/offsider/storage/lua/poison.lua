#!lua flags=allow-oom
-- Move the job that killed its owner from the private list of that fenced owner into the dead set.
-- KEYS[1] fenced mark of the owner: number of jobs that it held, and number of strikes still to give (0 if it
--   was stopping)
-- KEYS[2] private list
-- KEYS[3] dead set
-- KEYS[4] strikes of the job
-- ARGV[1] identity of the owner
-- ARGV[2] expiry of a strike in seconds
-- ARGV[3] payload as it was claimed
-- ARGV[4] payload to store
-- ARGV[5] retention of dead jobs in seconds
-- ARGV[6] size limit of the dead set; it keeps one job less, as in Sidekiq
-- returns 1, or 0 if the job is no longer in the list, or the error FENCED if the owner is not fenced
local mark = redis.call('GET', KEYS[1])
if not mark then return redis.error_reply('FENCED the owner is not fenced, so it may be alive') end
if not redis.call('LPOS', KEYS[2], ARGV[3]) then return 0 end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZADD', KEYS[3], string.format('%.6f', now), ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.6f', now - ARGV[5]))
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -ARGV[6])
redis.pcall('ZADD', KEYS[4], string.format('%.6f', now), ARGV[1])
redis.pcall('EXPIRE', KEYS[4], ARGV[2])
local held, left = string.match(mark, '^(%d+) (%d+)$')
if held then redis.call('SET', KEYS[1], held .. ' ' .. math.max(0, left - 1), 'KEEPTTL') end
redis.call('LREM', KEYS[2], 1, ARGV[3])
return 1
