#!lua flags=allow-oom
-- Remove an owner from the registry: immediately at its clean exit with empty lists, otherwise after all its lists
-- were empty in two checks, because a late script may still fill them.
-- KEYS[1] registry of owners
-- KEYS[2] suspects
-- KEYS[3] alive key of the owner
-- KEYS[4...] its lists
-- ARGV[1] identity
-- ARGV[2] milliseconds between the two checks; 0 for a clean exit
-- returns 1 if the owner was removed, else 0
local note = ARGV[1] .. ' empty'
for i = 4, #KEYS do
  if redis.call('LLEN', KEYS[i]) > 0 then
    redis.call('HDEL', KEYS[2], note)
    return 0
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] ~= '0' then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end  -- it has left: a note would stay
  local since = redis.call('HGET', KEYS[2], note)
  if not since then
    redis.call('HSET', KEYS[2], note, string.format('%.0f', now))
    return 0
  end
  if now - since < tonumber(ARGV[2]) then return 0 end
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1], note, ARGV[1] .. ' stopping')
redis.call('DEL', KEYS[3])
return 1
