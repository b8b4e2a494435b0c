#!lua flags=allow-oom
-- Remove expired locks from the index.
-- KEYS[1] index of locks
-- KEYS[2...] locks
-- returns the number of removed locks
local forgotten = 0
for i = 2, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then
    forgotten = forgotten + redis.call('SREM', KEYS[1], string.sub(KEYS[i], #KEYS[1] + 2))
  end
end
return forgotten
