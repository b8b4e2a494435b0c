#!lua flags=allow-oom
-- Delete error groups. A script, because a group is deleted as a whole while processes count errors, and a full server
-- refuses MULTI.
-- KEYS[1] sorted set: group -> when it was last seen
-- KEYS[2] hash: fields of all groups, each named group:field
-- ARGV[1] number of hours with a count of their own
-- ARGV[2...] group
-- returns the number of deleted groups
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
