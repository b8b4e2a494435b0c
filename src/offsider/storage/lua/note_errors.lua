#!lua flags=allow-oom
-- Count errors by group, in total and per hour, and delete the least recently seen groups.
-- A script, because a group is counted or deleted as a whole while other processes do the same.
-- KEYS[1] sorted set: group -> when it was last seen
-- KEYS[2] hash: fields of all groups, each named group:field
-- ARGV[1] maximum number of groups
-- ARGV[2] expiry of a group in seconds, from its last error
-- ARGV[3] number of hours with a count of their own, as a ring buffer
-- ARGV[4...] group, number of errors, time of the last one (epoch seconds), shared fields, jid; for each group
-- returns the number of deleted groups
local hours = tonumber(ARGV[3])
local latest = 0
for i = 4, #ARGV, 5 do
  local group, count, at = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local hour = math.floor(at / 3600)
  local place = group .. ':h' .. (hour % hours)
  local before = redis.call('HGET', KEYS[2], place)
  local counted = before and string.match(before, '^' .. string.format('%d', hour) .. ':(%d+)$')
  redis.call('HSET', KEYS[2], place, string.format('%d:%d', hour, (counted or 0) + count), group .. ':jid', ARGV[i + 4])
  redis.call('HINCRBY', KEYS[2], group .. ':count', count)
  redis.call('HSETNX', KEYS[2], group .. ':first', ARGV[i + 2])
  redis.call('HSETNX', KEYS[2], group .. ':info', ARGV[i + 3])
  redis.call('ZADD', KEYS[1], 'GT', at, group)
  latest = math.max(latest, at)
end
local dropped = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', latest - ARGV[2], 'LIMIT', 0, 100)
for _, group in ipairs(redis.call('ZRANGE', KEYS[1], 0, -ARGV[1] - 1)) do
  dropped[#dropped + 1] = group
end
for _, group in ipairs(dropped) do
  redis.call('ZREM', KEYS[1], group)
  redis.call('HDEL', KEYS[2], group .. ':count', group .. ':first', group .. ':info', group .. ':jid')
  for place = 0, hours - 1 do
    redis.call('HDEL', KEYS[2], group .. ':h' .. place)
  end
end
return #dropped
