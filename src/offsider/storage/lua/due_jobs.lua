#!lua flags=no-writes,allow-oom
-- Read the due jobs of sorted sets, by the server's clock.
-- KEYS[1...] sorted sets
-- ARGV[1] maximum number of jobs to read per set
-- returns {time in epoch seconds, {next score or an empty string, {payload, …}} or an error, for each set}
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local due = {string.format('%.6f', now)}
for i, key in ipairs(KEYS) do
  local members, next = {}, redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
  if next[2] and tonumber(next[2]) <= now then
    members = redis.call('ZRANGE', key, '-inf', due[1], 'BYSCORE', 'LIMIT', 0, ARGV[1])
    next = redis.call('ZRANGE', key, #members, #members, 'WITHSCORES')
  end
  due[1 + i] = next.err and next or {next[2] or '', members}
end
return due
