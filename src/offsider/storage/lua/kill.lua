#!lua flags=allow-oom
-- Move members of a sorted set into the dead set, and trim the dead set.
-- KEYS[1] sorted set
-- KEYS[2] dead set
-- ARGV[1] retention of dead jobs in seconds
-- ARGV[2] size limit of the dead set
-- ARGV[3] 1 if the members must be due by the server's clock, else 0
-- ARGV[4...] member, payload to store; for each
-- returns {1, or 0 if it is missing or not due; for each}
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local moved = {}
for i = 4, #ARGV, 2 do
  local member, payload = ARGV[i], ARGV[i + 1]
  local score = redis.call('ZSCORE', KEYS[1], member)
  local moves = score and not (ARGV[3] == '1' and tonumber(score) > now)
  if moves then
    redis.call('ZADD', KEYS[2], string.format('%.6f', now), payload)
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.6f', now - ARGV[1]))
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -ARGV[2])
    -- A member of the dead set itself stays there, with a new time.
    if KEYS[1] ~= KEYS[2] or member ~= payload then redis.call('ZREM', KEYS[1], member) end
  end
  moved[#moved + 1] = moves and 1 or 0
end
return moved
