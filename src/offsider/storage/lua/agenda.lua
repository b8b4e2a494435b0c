#!lua flags=allow-oom
-- One look of a scheduler: take or prolong the lease, and read what is due by the server's clock in every set.
-- Without the lease it runs no command that only reads, so that a tracking connection watches nothing: Redis 7.0
-- watches every key of a script that reads one.
-- KEYS[1] lease
-- KEYS[2...] sorted sets
-- ARGV[1] holder
-- ARGV[2] life of the lease in milliseconds
-- ARGV[3] the most jobs to read of each set
-- returns {'0', seconds that another holds the lease} or {'1', {seconds until the next score (negative when due, empty
--   when there is none), {payload, …}} or an error; for each set}
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
local agenda = {'1'}
for i = 2, #KEYS do
  local members = redis.pcall('ZRANGE', KEYS[i], '-inf', string.format('%.6f', now), 'BYSCORE', 'LIMIT', 0, ARGV[3])
  if members.err then
    agenda[i] = members
  else
    local rest = redis.call('ZRANGE', KEYS[i], #members, #members, 'WITHSCORES')
    agenda[i] = {rest[2] and string.format('%.6f', rest[2] - now) or '', members}
  end
end
return agenda
