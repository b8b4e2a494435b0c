#!lua flags=allow-oom
-- Note outcomes of members, callbacks or blocks, and push the callbacks whose condition now holds: atomically, so no kill
-- loses a callback or pushes it twice. Repeated outcomes change nothing.
-- KEYS[1] batches: zset of bid -> expiry
-- KEYS[2] set of known queues
-- KEYS[3...] of the batch and each ancestor: batch, jids, failed, died, open blocks, pending children, pending success
--   callbacks, the queues of its callbacks
-- ARGV[1] seconds to keep a successful batch
-- ARGV[2] seconds to keep a batch with a dead job
-- ARGV[3] number of batches
-- ARGV[4...] of each batch: bid, number of queues, their names
-- then the event of all outcomes, and the id of each; or an empty text, and of each outcome: event, id, class and error
--   event: succeeded, failed, died, or replaced: a member; called or broken: a callback; closed: a block, or all with an empty token
--   id: jid, or token of the block
-- returns 1 if a callback condition may have changed
local levels, key, at = {}, 3, 4
for i = 1, ARGV[3] do
  local count = tonumber(ARGV[at + 1])
  local level = {bid = ARGV[at], batch = KEYS[key], jids = KEYS[key + 1], failed = KEYS[key + 2], died = KEYS[key + 3],
    open = KEYS[key + 4], kids = KEYS[key + 5], calls = KEYS[key + 6], queues = {}}
  for j = 1, count do level.queues[ARGV[at + 1 + j]] = KEYS[key + 6 + j] end
  levels[i] = level
  key, at = key + 7 + count, at + 2 + count
end
local own, look, dead, broken, succeeded, ended = levels[1], false, false, false, {}, {}
local common = ARGV[at]
at = at + 1
local function remove(command, from, ids)
  local count, all = 0, #ids
  if all == 0 or redis.call('EXISTS', from) == 0 then return 0 end -- most are missing
  for i = 1, all, 1000 do count = count + redis.call(command, from, unpack(ids, i, math.min(i + 999, all))) end
  return count
end
local function note(to, id, about) -- returns whether the jid is new there
  local new = redis.call('HSET', to, id, about)
  redis.call('PEXPIRE', to, redis.call('PTTL', own.batch))
  return new == 1
end
if common ~= '' then
  succeeded = {unpack(ARGV, at)}
  ended = succeeded
end
for i = at, common == '' and #ARGV or 0, 3 do
  local event, id, about = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if event == 'succeeded' then
    succeeded[#succeeded + 1] = id
  elseif event == 'failed' then
    local waits = redis.call('SISMEMBER', own.jids, id) == 1 and redis.call('HEXISTS', own.died, id) == 0
    look = waits and note(own.failed, id, about) or look
  elseif event == 'died' then
    if redis.call('SISMEMBER', own.jids, id) == 1 then
      redis.call('HDEL', own.failed, id)
      dead, look = true, note(own.died, id, about) or look
    end
  elseif event == 'replaced' then
    if redis.call('EXISTS', own.batch) == 1 and redis.call('SREM', own.jids, id) == 1 then
      redis.call('HINCRBY', own.batch, 'total', -1)
      look = true
    end
  elseif event == 'called' then
    look = redis.call('SREM', own.calls, id) == 1 or look
  elseif event == 'closed' then -- of this batch only: its job may have blocks of the ancestors, too
    look = true
    if id == '' then redis.call('DEL', own.open) else redis.call('SREM', own.open, id) end
  else
    look, broken = true, true
  end
  if event ~= 'failed' and event ~= 'closed' then ended[#ended + 1] = id end
end
-- A job that ends opens no more blocks; a block of a killed run was repeated by the next.
for _, level in ipairs(levels) do look = remove('SREM', level.open, ended) > 0 or look end
if #succeeded > 0 then
  local waited = remove('SREM', own.jids, succeeded)
  for _, from in ipairs({own.failed, own.died}) do remove('HDEL', from, succeeded) end
  -- Most members: others have not run yet, so nothing else can have changed.
  local function ran() return redis.call('HLEN', own.failed) + redis.call('HLEN', own.died) end
  look = look or waited > 0 and redis.call('SCARD', own.jids) <= ran()
end
if not look then return 0 end
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
  for _, one in ipairs({'batch', 'jids', 'failed', 'died', 'open', 'kids', 'calls'}) do redis.call('EXPIRE', level[one], seconds) end
  redis.call('ZADD', KEYS[1], time[1] + seconds, level.bid)
end
for i, level in ipairs(levels) do
  local parent = levels[i + 1]
  if redis.call('EXISTS', level.batch) == 1 then
    if dead or (broken and i > 1) then
      fire(level, 'death')
      if redis.call('TTL', level.batch) < tonumber(ARGV[2]) then keep(level, ARGV[2]) end
    end
    local waiting = redis.call('SCARD', level.jids)
    local ran = redis.call('HLEN', level.failed) + redis.call('HLEN', level.died)
    if waiting <= ran and redis.call('EXISTS', level.open) == 0 then
      fire(level, 'complete')
      if waiting == 0 and redis.call('EXISTS', level.kids) == 0 then
        fire(level, 'success')
        if redis.call('EXISTS', level.calls) == 0 then
          keep(level, ARGV[1])
          if parent then redis.call('SREM', parent.kids, level.bid) end
        end
      end
    end
  end
end
return 1
