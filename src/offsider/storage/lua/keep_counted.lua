#!lua flags=allow-oom
-- Store the count of a bulk action. A script, because a full server refuses plain writes, and the bulk action is what
-- frees memory.
-- KEYS[1] hash of the count
-- ARGV[1] expiry in seconds
-- ARGV[2...] field, value; for each
-- returns 1
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
