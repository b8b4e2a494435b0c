#!lua flags=allow-oom
-- Delete a sorted set and the keys that belong to it. A script, because a full server refuses commands in a MULTI,
-- and deleting a set frees memory.
-- KEYS[1...] sorted set; then other keys to delete
-- returns the number of members
local members = redis.call('ZCARD', KEYS[1])
redis.call('UNLINK', unpack(KEYS))
return members
