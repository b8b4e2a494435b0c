#!lua flags=allow-oom
-- Move up to n jobs from the queues, in the order given, into the owner's private lists.
-- A script, because LMOVE alone stops when the server is full, cannot look at `paused`
-- and would need one round trip a queue.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] set of paused queues
-- KEYS[3...] queue, private list; one pair for each queue
-- ARGV[1] n, the most jobs to move
-- ARGV[2...] name of each queue
-- returns {index of the pair from 1, payload, index, payload, …}, or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
local wanted, moved, refused = tonumber(ARGV[1]), {}, nil
for i = 1, #ARGV - 1 do
  if wanted == 0 then break end
  if redis.call('SISMEMBER', KEYS[2], ARGV[i + 1]) == 0 then
    while wanted > 0 do
      local raw = redis.pcall('LMOVE', KEYS[1 + 2 * i], KEYS[2 + 2 * i], 'RIGHT', 'LEFT')
      if type(raw) == 'table' then refused = redis.error_reply(raw.err .. ' (' .. KEYS[1 + 2 * i] .. ')') end
      if type(raw) ~= 'string' then break end
      moved[#moved + 1], moved[#moved + 2], wanted = i, raw, wanted - 1
    end
  end
end
-- A queue that is no list must not keep the others from being served.
if #moved == 0 and refused then return refused end
return moved
