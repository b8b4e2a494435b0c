#!lua flags=allow-oom
-- Check owners once: note those without a liveness key, and return those that are dead.
-- An owner is dead only after at least three checks without a liveness key. They must span a third of the key's
-- expiry, by the server's clock, without a gap of more than a quarter of it (after a gap, counting starts again).
-- A fenced owner was declared dead before, and needs no checks.
-- Notes of owners that have left are removed: an owner may leave while it is being checked or forgotten.
-- KEYS[1] suspects
-- KEYS[2] registry of owners
-- KEYS[3...] alive key, fenced mark; of each owner
-- ARGV[1] expiry of the alive key in milliseconds
-- ARGV[2...] identity of each owner
-- returns {identity, …} of dead owners
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life, dead, noted = tonumber(ARGV[1]), {}, {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local identity = string.gsub(field, ' %a+$', '')
  noted[identity] = true
  if redis.call('HEXISTS', KEYS[2], identity) == 0 then redis.call('HDEL', KEYS[1], field) end
end
local registered, marks
for i = 2, #ARGV do
  local at = (i - 2) % 1000 -- more values do not fit on the stack
  if at == 0 then
    local last = math.min(#ARGV, i + 999)
    registered = redis.call('HMGET', KEYS[2], unpack(ARGV, i, last))
    marks = redis.call('MGET', unpack(KEYS, 2 * i - 1, 2 * last))
  end
  local identity, alive, fenced = ARGV[i], marks[2 * at + 1], marks[2 * at + 2]
  if not registered[at + 1] then
    -- it has left
  elseif fenced then
    dead[#dead + 1] = identity
  elseif not alive then
    local first, last, looks = now, now, 1
    local note = redis.call('HGET', KEYS[1], identity)
    if note then
      local a, b, c = string.match(note, '^(%d+):(%d+):(%d+)$')
      if a and now >= tonumber(b) and now - b <= life / 4 then
        first, looks = tonumber(a), c + 1
      end
    end
    redis.call('HSET', KEYS[1], identity, string.format('%.0f:%.0f:%.0f', first, last, looks))
    if looks >= 3 and now - first >= life / 3 then dead[#dead + 1] = identity end
  elseif noted[identity] then
    redis.call('HDEL', KEYS[1], identity, identity .. ' empty')
  end
end
return dead
