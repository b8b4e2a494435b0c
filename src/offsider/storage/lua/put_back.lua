#!lua flags=allow-oom
-- Requeue jobs of an owner's private lists at the head of their queues. The owner itself calls this.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] set of known queues
-- KEYS[3...] private list, queue; one pair for each job
-- ARGV[1...] payload as it was claimed, payload to store, name of the queue; for each job
-- returns {1, 0 if it is no longer in its list, -1 if its queue refuses it; for each job}, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
local moved = {}
for i = 1, #ARGV / 3 do
  local list, queue = KEYS[1 + 2 * i], KEYS[2 + 2 * i]
  local raw, payload, name = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  moved[i] = 0
  if redis.call('LPOS', list, raw) then
    -- A queue of the wrong type must not block the jobs of other queues.
    local pushed = redis.pcall('RPUSH', queue, payload)
    if type(pushed) == 'table' then
      moved[i] = -1
    else
      redis.pcall('SADD', KEYS[2], name)
      redis.call('LREM', list, 1, raw)
      moved[i] = 1
    end
  end
end
return moved
