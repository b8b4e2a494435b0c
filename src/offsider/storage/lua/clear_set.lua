#!lua flags=allow-oom
-- Delete a sorted set, and what belongs to its members. A script, because a full server refuses whatever
-- stands in a MULTI, and a set that is deleted is what makes room there.
-- KEYS[1...] sorted set; and further keys, which go with it
-- returns how many members there were
local members = redis.call('ZCARD', KEYS[1])
redis.call('UNLINK', unpack(KEYS))
return members
