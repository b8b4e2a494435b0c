#!lua flags=allow-oom
-- Remove jobs from the middle of a queue, each near its last known position: LREM would search the whole queue for
-- each. Jobs are overwritten with a mark, and one LREM removes all marks. Other clients never see a mark.
-- KEYS[1] queue
-- KEYS[2] quarantine: ids scored by expiry in epoch seconds
-- KEYS[3] quarantined jobs by id
-- ARGV[1] a mark that no job is equal to
-- ARGV[2] retention in quarantine in seconds; 0 to delete the jobs permanently
-- ARGV[3] maximum number of positions that a job may have moved toward the end since it was read
-- ARGV[4...] position from the end when it was read (-1 is the last), id, head (a line of JSON), payload; for each
-- returns {1, 0 if it is not near its position; for each}
local taken, moved, shift, looks, count, deepest = {}, {}, 0, 0, 0, 0
local now = tonumber(redis.call('TIME')[1])
for i = 1, (#ARGV - 3) / 4 do
  local seen, payload = tonumber(ARGV[4 * i]), ARGV[4 * i + 3]
  local there = seen + shift < 0 and redis.call('LINDEX', KEYS[1], seen + shift) == payload
  if not there and looks < 3 then
    -- Workers have taken jobs from the end: search nearby, then further away.
    looks = looks + 1
    local first, ahead, most = math.max(seen, -redis.call('LLEN', KEYS[1])), 0, tonumber(ARGV[3])
    while not there and ahead <= most and first + ahead < 0 do
      local width = math.max(10, ahead)
      for place, other in ipairs(redis.call('LRANGE', KEYS[1], first + ahead, math.min(-1, first + ahead + width - 1))) do
        if other == payload then
          shift, there = first + ahead + place - 1 - seen, true
          break
        end
      end
      ahead = ahead + width
    end
  end
  local place = seen + shift
  moved[i] = 0
  if there and not taken[place] then
    if ARGV[2] ~= '0' then
      redis.call('HSET', KEYS[3], ARGV[4 * i + 1], ARGV[4 * i + 2] .. '\n' .. payload)
      redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[4 * i + 1])
    end
    taken[place], moved[i] = true, 1
    count, deepest = count + 1, math.max(deepest, -place)
  end
end
for place in pairs(taken) do redis.call('LSET', KEYS[1], place, ARGV[1]) end
-- Start at the nearer end.
if deepest < redis.call('LLEN', KEYS[1]) / 2 then count = -count end
if count ~= 0 then redis.call('LREM', KEYS[1], count, ARGV[1]) end
return moved
