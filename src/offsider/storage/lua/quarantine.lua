#!lua flags=allow-oom
-- Move members of a sorted set into quarantine. Missing members are skipped. Each member is written first and removed
-- last, so no job is lost if the script stops early.
-- KEYS[1] sorted set
-- KEYS[2] quarantine: ids scored by expiry in epoch seconds
-- KEYS[3] quarantined jobs by id
-- ARGV[1] retention in seconds
-- ARGV[2...] id, head (a line of JSON), member; for each
-- returns {1, or 0 if it is missing; for each}
local now = tonumber(redis.call('TIME')[1])
local moved = {}
for i = 1, (#ARGV - 1) / 3 do
  local id, head, member = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  moved[i] = 0
  if redis.call('ZSCORE', KEYS[1], member) then
    redis.call('HSET', KEYS[3], id, head .. '\n' .. member)
    redis.call('ZADD', KEYS[2], now + ARGV[1], id)
    redis.call('ZREM', KEYS[1], member)
    moved[i] = 1
  end
end
return moved
