#!lua flags=allow-oom
-- Delete members of a sorted set.
-- KEYS[1] sorted set
-- ARGV[1...] members
-- returns {1, or 0 if it is missing; for each}
local removed = {}
for i = 1, #ARGV do removed[i] = redis.call('ZREM', KEYS[1], ARGV[i]) end
return removed
