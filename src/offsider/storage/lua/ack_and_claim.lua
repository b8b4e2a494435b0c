#!lua flags=allow-oom
-- Acknowledge finished jobs and claim up to n jobs, in one round trip of a worker.
-- A script, because a full server refuses LMOVE, and because LMOVE cannot check `paused` and takes one
-- queue at a time. Finished jobs are removed first, from the old end of the list.
-- KEYS[1] fenced mark of the owner
-- KEYS[2] set with the version of the controls
-- KEYS[3] set of paused queues
-- KEYS[4...] queue, private list; one pair for each queue
-- ARGV[1] n, the maximum number of jobs to claim
-- ARGV[2] number of pairs, from the first, to claim jobs from
-- ARGV[3...] name of each of these queues; then for each finished job the index of its pair and its payload
-- returns {{index of each missing finished job, …}, {index of the pair from 1, payload, …},
--   {index of each paused queue, …}, error of an unreadable queue or an empty string; version of the controls, empty
--   without one and without a claim},
--   or the error FENCED
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.error_reply('FENCED this identity was declared dead')
end
local wanted, open = tonumber(ARGV[1]), tonumber(ARGV[2])
local gone, moved, paused, refused, version = {}, {}, {}, '', ''
for i = 3 + open, #ARGV, 2 do
  local removed = redis.pcall('LREM', KEYS[3 + 2 * ARGV[i]], -1, ARGV[i + 1])
  if type(removed) == 'table' then return removed end
  if removed ~= 1 then gone[#gone + 1] = (i - 1 - open) / 2 end
end
local stopped = {}
if open > 0 then
  version = redis.call('SMEMBERS', KEYS[2])[1] or ''
  stopped = redis.call('SMISMEMBER', KEYS[3], unpack(ARGV, 3, 2 + open))
end
for i = 1, open do
  if stopped[i] == 1 then
    paused[#paused + 1] = i
  else
    while wanted > 0 do
      local raw = redis.pcall('LMOVE', KEYS[2 + 2 * i], KEYS[3 + 2 * i], 'RIGHT', 'LEFT')
      if type(raw) == 'table' then refused = raw.err .. ' (' .. KEYS[2 + 2 * i] .. ')' end
      if type(raw) ~= 'string' then break end
      moved[#moved + 1], moved[#moved + 2], wanted = i, raw, wanted - 1
    end
  end
end
return {gone, moved, paused, refused, version}
