#!lua flags=allow-oom
-- Look once at owners: note who does not beat, and name those that were silent long enough.
-- Nobody is dead at first sight: at least three looks, over a third of the liveness life of the
-- server's time, and no gap between looks of more than a quarter of it (a gap starts anew).
-- Who is fenced has been declared dead before, and nothing more has to be seen.
-- KEYS[1] suspects
-- KEYS[2...] alive key, fenced mark; of each owner
-- ARGV[1] liveness life in milliseconds
-- ARGV[2...] identity of each owner
-- returns {identity, …} of the dead
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life, dead = tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  local identity = ARGV[i]
  if redis.call('EXISTS', KEYS[2 * i - 1]) == 1 then
    dead[#dead + 1] = identity
  elseif redis.call('EXISTS', KEYS[2 * i - 2]) == 1 then
    redis.call('HDEL', KEYS[1], identity, identity .. ' empty')
  else
    local first, last, looks = now, now, 1
    local note = redis.call('HGET', KEYS[1], identity)
    if note then
      local a, b, c = string.match(note, '^(%d+):(%d+):(%d+)$')
      if a and now >= tonumber(b) and now - b <= life / 4 then
        first, looks = tonumber(a), c + 1
      end
    end
    redis.call('HSET', KEYS[1], identity, string.format('%.0f:%.0f:%.0f', first, last, looks))
    if looks >= 3 and now - first >= life / 3 then dead[#dead + 1] = identity end
  end
end
return dead
