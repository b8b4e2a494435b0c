#!lua flags=allow-oom
-- Move a job from its owner's private list into a sorted set, due after a delay; into the dead set, which is trimmed as
-- Sidekiq does; to the tail of its queue; or into the quarantine, unless it is full: then the job is deleted.
-- Redis does not roll back: check first, then write the destination, and remove the source last.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] private list
-- KEYS[3] sorted set, dead set, queue, or quarantine: ids scored by expiry in epoch seconds
-- KEYS[4] of a queue the set of known queues, of the quarantine its jobs by id; else unused
-- ARGV[1] payload as it was claimed
-- ARGV[2] what to store: the payload, or its head in quarantine (a line of JSON)
-- ARGV[3] destination: set, dead, queue or quarantine
-- ARGV[4] delay in seconds from the server's time; retention in seconds; or name of the queue
-- ARGV[5] size limit of the dead set, which keeps one job less, as in Sidekiq; or of the quarantine; else unused
-- ARGV[6] id in quarantine; else unused
-- returns 1, or 0 if the job is no longer in the list, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
if not redis.call('LPOS', KEYS[2], ARGV[1]) then return 0 end
local time, to = redis.call('TIME'), ARGV[3]
local now = time[1] + time[2] / 1000000
if to == 'set' then
  redis.call('ZADD', KEYS[3], string.format('%.6f', now + ARGV[4]), ARGV[2])
elseif to == 'dead' then
  redis.call('ZADD', KEYS[3], string.format('%.6f', now), ARGV[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.6f', now - ARGV[4]))
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -ARGV[5])
elseif to == 'queue' then
  redis.call('LPUSH', KEYS[3], ARGV[2])
  redis.pcall('SADD', KEYS[4], ARGV[4])
elseif redis.call('ZCARD', KEYS[3]) < tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[4], ARGV[6], ARGV[2] .. '\n' .. ARGV[1])
  redis.call('ZADD', KEYS[3], time[1] + ARGV[4], ARGV[6])
end
redis.call('LREM', KEYS[2], 1, ARGV[1])
return 1
