#!lua flags=allow-oom
-- Store other bytes in place of jobs of a list, each about where it was seen: LREM and LINSERT would search for each.
-- KEYS[1] list
-- ARGV[1] how many places a job may have come nearer to the end since it was seen
-- ARGV[2...] its place from the end when it was seen (-1 is the last), payload, what to store; for each
-- returns {1, 0 when it is not near its place; for each}
local length = redis.call('LLEN', KEYS[1])
local done, shift, looks = {}, 0, 0
for i = 1, (#ARGV - 1) / 3 do
  local seen, payload = tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
  local place = seen + shift
  if (place >= 0 or redis.call('LINDEX', KEYS[1], place) ~= payload) and looks < 3 then
    -- Some have been taken from the end, or given back there: look how many, once for all that follow.
    looks = looks + 1
    local found = redis.call('LPOS', KEYS[1], payload, 'RANK', -1, 'MAXLEN', 100 - seen)
    place = found and found - length or 0
    if found and place - seen <= tonumber(ARGV[1]) then shift = place - seen else place = 0 end
  end
  done[i] = 0
  if place < 0 and redis.call('LINDEX', KEYS[1], place) == payload then
    redis.call('LSET', KEYS[1], place, ARGV[3 * i + 1])
    done[i] = 1
  end
end
return done
