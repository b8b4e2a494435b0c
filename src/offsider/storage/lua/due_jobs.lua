#!lua flags=allow-oom
-- Acquire or renew the lease of a scheduler, and read the due jobs of each set, by the server's clock.
-- Without the lease, the script runs no read-only command, so that a tracking connection watches no keys: Redis 7.0
-- watches every key of a script that reads one.
-- KEYS[1] lease
-- KEYS[2...] sorted sets
-- ARGV[1] holder
-- ARGV[2] expiry of the lease in milliseconds
-- ARGV[3] maximum number of jobs to read per set
-- returns {'0'} or {'1', {seconds until the next score (negative if due, empty if there is none), {payload, …}} or an
--   error; for each set}
local holder = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if holder and holder ~= ARGV[1] then return {'0'} end
if holder then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local due = {'1'}
for i = 2, #KEYS do
  local members, next = {}, redis.pcall('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
  if next[2] and tonumber(next[2]) <= now then
    members = redis.call('ZRANGE', KEYS[i], '-inf', string.format('%.6f', now), 'BYSCORE', 'LIMIT', 0, ARGV[3])
    next = redis.call('ZRANGE', KEYS[i], #members, #members, 'WITHSCORES')
  end
  due[i] = next.err and next or {next[2] and string.format('%.6f', next[2] - now) or '', members}
end
return due
