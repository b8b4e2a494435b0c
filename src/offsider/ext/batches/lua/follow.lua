#!lua flags=allow-oom
-- Store the result of a step, and push each step that waits for nothing else. A repeated success changes nothing.
-- KEYS[1] steps of the workflow
-- KEYS[2] set of known queues
-- KEYS[3...] queue of each step that waits for this one
-- ARGV[1] jid
-- ARGV[2] result as JSON; empty: the step has none, and nothing follows
-- ARGV[3] seconds to keep the steps when all are pushed
-- ARGV[4...] of each waiting step: jid, name of its queue
-- returns the number of pushed steps
local steps, pushed = KEYS[1], 0
if ARGV[2] == '' or redis.call('EXISTS', steps) == 0 then return 0 end
if redis.call('HSETNX', steps, 'result:' .. ARGV[1], ARGV[2]) == 0 then return 0 end
for i = 4, #ARGV, 2 do
  local jid = ARGV[i]
  if redis.call('HINCRBY', steps, 'left:' .. jid, -1) == 0 then
    local step = cjson.decode(redis.call('HGET', steps, 'step:' .. jid))
    local results = {}
    for n, before in ipairs(step.after) do results[n] = redis.call('HGET', steps, 'result:' .. before) end
    local given = step.many and '[' .. table.concat(results, ',') .. ']' or results[1]
    local time = redis.call('TIME')
    local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    if step.wire < 8 then at = string.format('%s.%06d', time[1], time[2]) end
    local payload = table.concat(step.parts, given) .. ',"enqueued_at":' .. at .. '}'
    redis.call('LPUSH', KEYS[3 + (i - 4) / 2], payload)
    redis.pcall('SADD', KEYS[2], ARGV[i + 1])
    redis.call('HDEL', steps, 'step:' .. jid, 'left:' .. jid)
    if redis.call('HINCRBY', steps, 'waiting', -1) == 0 then redis.call('EXPIRE', steps, ARGV[3]) end
    pushed = pushed + 1
  end
end
return pushed
