#!lua flags=allow-oom
-- Acquire or renew the lease of a scheduler, and read the due jobs of each set, by the server's clock.
-- Without the lease, the script runs no read-only command, so that a tracking connection watches no keys: Redis 7.0
-- watches every key of a script that reads one.
-- KEYS[1] lease
-- KEYS[2...] sorted sets
-- ARGV[1] holder
-- ARGV[2] expiry of the lease in milliseconds
-- ARGV[3] maximum number of jobs to read per set
-- returns {'0', seconds until another holder's lease ends} or {'1', {seconds until the next score (negative if due,
--   empty if there is none), {payload, …}} or an error; for each set}
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local mine = string.format('%s %.3f', ARGV[1], now + ARGV[2] / 1000)
local held = redis.call('SET', KEYS[1], mine, 'NX', 'GET', 'PX', ARGV[2])
if held then
  local holder, ends = string.match(held, '^(.*) (%S+)$')
  local left = (tonumber(ends) or now) - now
  if holder ~= ARGV[1] and left > 0 then return {'0', string.format('%.3f', left)} end
  redis.call('SET', KEYS[1], mine, 'PX', ARGV[2])
end
local due = {'1'}
for i = 2, #KEYS do
  local members = redis.pcall('ZRANGE', KEYS[i], '-inf', string.format('%.6f', now), 'BYSCORE', 'LIMIT', 0, ARGV[3])
  if members.err then
    due[i] = members
  else
    local rest = redis.call('ZRANGE', KEYS[i], #members, #members, 'WITHSCORES')
    due[i] = {rest[2] and string.format('%.6f', rest[2] - now) or '', members}
  end
end
return due
