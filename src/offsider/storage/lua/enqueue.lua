#!lua flags=allow-oom
-- Compare-and-move: push jobs of a sorted set to the tail of their queues, if they are still in the set.
-- The client that removes the member owns the job, so Ruby pollers may run at the same time.
-- KEYS[1] sorted set
-- KEYS[2] set of known queues
-- KEYS[3...] queue of each job
-- ARGV[1] 1 if jobs must be due by the server's clock, else 0
-- ARGV[2...] member of the set, payload to push, name of the queue; for each job
-- returns {1, 0 if it is missing or not due, -1 if its queue refuses it; for each job}
local moved = {}
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
for i = 1, (#ARGV - 1) / 3 do
  local member, payload, name = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local score = redis.call('ZSCORE', KEYS[1], member)
  moved[i] = 0
  if score and (ARGV[1] == '0' or tonumber(score) <= now) then
    redis.pcall('SADD', KEYS[2], name)
    local pushed = redis.pcall('LPUSH', KEYS[2 + i], payload)
    if type(pushed) == 'table' then
      moved[i] = -1
    else
      redis.call('ZREM', KEYS[1], member)
      moved[i] = 1
    end
  end
end
return moved
