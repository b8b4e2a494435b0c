#!lua flags=allow-oom
-- Delete the state and the statistics of a limiter, but keep its definition for the pages.
-- KEYS[1] state and statistics
-- KEYS[2] slots in use, or uses inside the window
-- returns 1 if the limiter existed
local definition, left = redis.call('HGET', KEYS[1], 'definition'), redis.call('PTTL', KEYS[1])
local existed = redis.call('DEL', KEYS[1], KEYS[2])
if definition then
  redis.call('HSET', KEYS[1], 'definition', definition)
  if left > 0 then redis.call('PEXPIRE', KEYS[1], left) end
end
return math.min(1, existed)
