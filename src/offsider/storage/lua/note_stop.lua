#!lua flags=allow-oom
-- Note that an owner is stopping, unless it has left: then no process would delete the note.
-- KEYS[1] registry of owners
-- KEYS[2] suspects
-- ARGV[1] identity
-- returns 1, or 0 if the owner is not registered
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1] .. ' stopping', 1)
return 1
