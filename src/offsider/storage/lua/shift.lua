#!lua flags=allow-oom
-- Move jobs from about where they were seen in a queue to the tails of other lists, in the order given. As in
-- pluck.lua, they are overwritten with a mark, and the marks are removed at once: LREM would search for each.
-- Looked at first, written to the other list second, removed last; nobody sees a mark.
-- KEYS[1] queue
-- KEYS[2] set of the names of lists
-- KEYS[3...] list for each job
-- ARGV[1] a mark that no job is equal to
-- ARGV[2] how many places a job may have come nearer to the end since it was seen
-- ARGV[3...] its place from the end when it was seen (-1 is the last), payload, what to store, name of the list; for each
-- returns {1, 0 when it is not near its place, -1 when its list refuses it; for each}
local length = redis.call('LLEN', KEYS[1])
local first_place = 0 - length -- with a mere minus it would be -0, which is no integer to Redis
local taken, moved, shift, looks, count, deepest = {}, {}, 0, 0, 0, 0
local low, high, window, base = -1, first_place, {}, 0
for i = 3, #ARGV, 4 do low, high = math.min(low, tonumber(ARGV[i])), math.max(high, tonumber(ARGV[i])) end
local function look()
  base = math.max(low + shift, first_place)
  window = redis.call('LRANGE', KEYS[1], base, math.min(-1, high + shift))
end
look()
for i = 1, (#ARGV - 2) / 4 do
  local seen, payload = tonumber(ARGV[4 * i - 1]), ARGV[4 * i]
  local there = window[seen + shift - base + 1] == payload
  if not there and looks < 3 then
    -- Workers have taken jobs from the end, or given some back there: look how many, near at first.
    looks = looks + 1
    local first, ahead, most = math.max(seen - 100, first_place), 0, tonumber(ARGV[2])
    while not there and ahead <= most and first + ahead < 0 do
      local width = math.max(10, ahead)
      for place, other in ipairs(redis.call('LRANGE', KEYS[1], first + ahead, math.min(-1, first + ahead + width - 1))) do
        if other == payload then
          shift, there = first + ahead + place - 1 - seen, true
          look()
          break
        end
      end
      ahead = ahead + width
    end
  end
  local place = seen + shift
  moved[i] = 0
  if there and not taken[place] then
    redis.pcall('SADD', KEYS[2], ARGV[4 * i + 2])
    if type(redis.pcall('LPUSH', KEYS[2 + i], ARGV[4 * i + 1])) == 'table' then
      moved[i] = -1
    else
      taken[place], moved[i] = true, 1
      count, deepest = count + 1, math.max(deepest, -place)
    end
  end
end
for place in pairs(taken) do redis.call('LSET', KEYS[1], place, ARGV[1]) end
-- From the end that is nearer.
if deepest < length / 2 then count = -count end
if count ~= 0 then redis.call('LREM', KEYS[1], count, ARGV[1]) end
return moved
