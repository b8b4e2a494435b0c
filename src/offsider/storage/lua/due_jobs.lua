#!lua flags=allow-oom
-- Acquire or renew the lease of a scheduler, and read the due jobs of each set, by the server's clock.
-- KEYS[1] lease
-- KEYS[2...] sorted sets
-- ARGV[1] holder
-- ARGV[2] expiry of the lease in milliseconds
-- ARGV[3] maximum number of jobs to read per set
-- ARGV[4] 1 if the caller had the lease at its last read; else 0. If it has lost it, this prolongs the other's lease once
-- returns {'0', milliseconds until the lease of another scheduler ends} or {'1', {seconds until the next score (negative if due, empty if there is none), {payload, …}} or an
--   error; for each set}
local renews = ARGV[4] == '1'
local holder = renews and redis.call('GETEX', KEYS[1], 'PX', ARGV[2])
  or redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if holder and holder ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  -- Written by another program: it would never end.
  if left < 0 then redis.call('DEL', KEYS[1]) end
  return {'0', math.max(0, left)}
end
if holder and not renews then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
local due, now = {'1'}, nil
for i = 2, #KEYS do
  local members, next = {}, redis.pcall('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
  if next[2] and not now then
    local time = redis.call('TIME')
    now = time[1] + time[2] / 1000000
  end
  if next[2] and tonumber(next[2]) <= now then
    members = redis.call('ZRANGE', KEYS[i], '-inf', string.format('%.6f', now), 'BYSCORE', 'LIMIT', 0, ARGV[3])
    next = redis.call('ZRANGE', KEYS[i], #members, #members, 'WITHSCORES')
  end
  due[i] = next.err and next or {next[2] and string.format('%.6f', next[2] - now) or '', members}
end
return due
