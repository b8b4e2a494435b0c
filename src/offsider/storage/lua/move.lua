#!lua flags=allow-oom
-- Move jobs of a list, in the order in which they run, or of a sorted set, each to another key of this server.
-- A job of a list moves only while it is the next one: other clients may take jobs at any time, and no search is
-- needed. Each job is written first and removed last. If its destination refuses it, it stays, at the tail of its list.
-- KEYS[1] list or sorted set
-- KEYS[2] set of known queues
-- KEYS[3] set of the names of lists of jobs in transit
-- KEYS[4...] queue, list of jobs in transit, or KEYS[1] itself; for each job
-- ARGV[1...] job; what to store, empty if the job stays; name of the queue or list, empty for KEYS[1]; transfer, empty
--   unless the job leaves for another server; for each job
-- returns {1, 0 if the job is missing or not the next one, -1 if its destination refuses it; for each}
local is_list = redis.call('TYPE', KEYS[1]).ok == 'list'
local moved = {}

local function store(i, score)
  local target = KEYS[3 + i]
  local payload, name, transfer = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i]
  local reply
  if transfer ~= '' then
    redis.call('SADD', KEYS[3], name)
    reply = redis.pcall('LPUSH', target, transfer .. ' ' .. (score or '-') .. ' ' .. payload)
  elseif not score then
    if name ~= '' then redis.pcall('SADD', KEYS[2], name) end
    reply = redis.pcall('LPUSH', target, payload)
  elseif redis.call('ZSCORE', target, payload) then
    return false -- an equal member of the set would replace this job
  else
    reply = redis.call('ZADD', target, score, payload)
  end
  return type(reply) ~= 'table'
end

for i = 1, #ARGV / 4 do
  local job, stays = ARGV[4 * i - 3], ARGV[4 * i - 2] == ''
  moved[i] = 0
  if is_list then
    if redis.call('LINDEX', KEYS[1], -1) == job then
      moved[i] = (stays or store(i)) and 1 or -1
      if stays or moved[i] == -1 then
        redis.call('LMOVE', KEYS[1], KEYS[1], 'RIGHT', 'LEFT')
      else
        redis.call('RPOP', KEYS[1])
      end
    end
  else
    local score = redis.call('ZSCORE', KEYS[1], job)
    if score then
      moved[i] = (stays or store(i, score)) and 1 or -1
      if not stays and moved[i] == 1 then redis.call('ZREM', KEYS[1], job) end
    end
  end
end
return moved
