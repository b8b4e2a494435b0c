#!lua flags=allow-oom
-- Drop groups of errors. A script, because a group is dropped as a whole while processes count further errors,
-- and a full server allows it in no MULTI.
-- KEYS[1] sorted set: group -> when it was last seen
-- KEYS[2] hash: fields of all groups, each named group:field
-- ARGV[1] so many hours are counted one by one
-- ARGV[2...] group
-- returns how many there were
local dropped = 0
for i = 2, #ARGV do
  local group = ARGV[i]
  dropped = dropped + redis.call('ZREM', KEYS[1], group)
  redis.call('HDEL', KEYS[2], group .. ':count', group .. ':first', group .. ':info', group .. ':jid')
  for place = 0, tonumber(ARGV[1]) - 1 do
    redis.call('HDEL', KEYS[2], group .. ':h' .. place)
  end
end
return dropped
