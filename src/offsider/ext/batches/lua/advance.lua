#!lua flags=allow-oom
-- Note the outcome of a member, a callback or a block, and push the callbacks whose condition now holds: atomically, so
-- no kill loses a callback or pushes it twice. Repeated outcomes change nothing.
-- KEYS[1] batches: zset of bid -> expiry
-- KEYS[2] set of known queues
-- KEYS[3...] of the batch and each ancestor: batch, jids, failed, died, open blocks, pending children, pending success
--   callbacks, the queues of its callbacks
-- ARGV[1] succeeded, failed or died: a member; called or broken: a callback; closed: a block, or all with an empty token
-- ARGV[2] jid, or token of the block
-- ARGV[3] class and error
-- ARGV[4] seconds to keep a successful batch
-- ARGV[5] seconds to keep a batch with a dead job
-- ARGV[6...] of each batch: bid, number of queues, their names
-- returns 1 if a callback condition may have changed
local event, id, dead = ARGV[1], ARGV[2], false
local batch, jids, failed, died, changed = KEYS[3], KEYS[4], KEYS[5], KEYS[6], 0
local function expire(key, seconds) redis.call('EXPIRE', key, seconds) end
local function note(key) -- returns whether the jid is new there
  local new = redis.call('HSET', key, id, ARGV[3])
  redis.call('PEXPIRE', key, redis.call('PTTL', batch))
  return new
end
if event == 'failed' then
  if redis.call('SISMEMBER', jids, id) == 0 or redis.call('HEXISTS', died, id) == 1 then return 0 end
  if note(failed) == 0 then return 0 end
elseif event == 'died' then
  dead = redis.call('SISMEMBER', jids, id) == 1
  if dead then
    redis.call('HDEL', failed, id)
    changed = note(died)
  end
elseif event == 'succeeded' then
  changed = redis.call('SREM', jids, id)
  local ran = 0
  for _, key in ipairs({failed, died}) do
    local count = redis.call('HLEN', key)
    if count > 0 and changed == 1 then count = count - redis.call('HDEL', key, id) end
    ran = ran + count
  end
  local waiting = redis.call('SCARD', jids) - ran
  if waiting > 0 and #ARGV == 7 + ARGV[7] then -- most members: nothing else can have changed
    redis.call('SREM', KEYS[7], id)
    return 0
  end
elseif event == 'called' then
  changed = redis.call('SREM', KEYS[9], id)
end
local levels, key, at = {}, 3, 6
while ARGV[at] do
  local count = tonumber(ARGV[at + 1])
  local level = {bid = ARGV[at], batch = KEYS[key], jids = KEYS[key + 1], failed = KEYS[key + 2], died = KEYS[key + 3],
    open = KEYS[key + 4], kids = KEYS[key + 5], calls = KEYS[key + 6], queues = {}}
  for i = 1, count do level.queues[ARGV[at + 1 + i]] = KEYS[key + 6 + i] end
  if event ~= 'failed' then -- a job that ends opens no more blocks; a block of a killed run was repeated by the next
    if event == 'closed' and id == '' and #levels == 0 then redis.call('DEL', level.open) end
    changed = changed + redis.call('SREM', level.open, id)
  end
  levels[#levels + 1] = level
  key, at = key + 7 + count, at + 2 + count
end
if changed == 0 and event ~= 'failed' and event ~= 'closed' and event ~= 'broken' then return 0 end
local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local function fire(level, name)
  if redis.call('HEXISTS', level.batch, name .. '_at') == 1 then return end
  for _, call in ipairs(cjson.decode(redis.call('HGET', level.batch, 'on_' .. name) or '[]')) do
    local pushed = 'pushed:' .. call.jid
    if redis.call('HEXISTS', level.batch, pushed) == 0 then
      local enqueued_at = call.wire < 8 and string.format('%s.%06d', time[1], time[2]) or now_ms
      redis.call('LPUSH', level.queues[call.queue], call.payload .. ',"enqueued_at":' .. enqueued_at .. '}')
      redis.call('HSET', level.batch, pushed, now_ms)
      redis.pcall('SADD', KEYS[2], call.queue)
    end
  end
  redis.call('HSET', level.batch, name .. '_at', now_ms)
end
local function keep(level, seconds)
  for _, one in ipairs({'batch', 'jids', 'failed', 'died', 'open', 'kids', 'calls'}) do expire(level[one], seconds) end
  redis.call('ZADD', KEYS[1], time[1] + seconds, level.bid)
end
for i, level in ipairs(levels) do
  local parent = levels[i + 1]
  if redis.call('EXISTS', level.batch) == 1 then
    if dead or (event == 'broken' and i > 1) then
      fire(level, 'death')
      if redis.call('TTL', level.batch) < tonumber(ARGV[5]) then keep(level, ARGV[5]) end
    end
    local waiting = redis.call('SCARD', level.jids)
    local ran = redis.call('HLEN', level.failed) + redis.call('HLEN', level.died)
    if waiting <= ran and redis.call('EXISTS', level.open) == 0 then
      fire(level, 'complete')
      if waiting == 0 and redis.call('EXISTS', level.kids) == 0 then
        fire(level, 'success')
        if redis.call('EXISTS', level.calls) == 0 then
          keep(level, ARGV[4])
          if parent then redis.call('SREM', parent.kids, level.bid) end
        end
      end
    end
  end
end
return 1
