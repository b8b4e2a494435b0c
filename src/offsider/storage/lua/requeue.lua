#!lua flags=allow-oom
-- Move jobs from an owner's private lists to the head of their queues: by the owner itself, or by another process after
-- the owner was fenced. Then each job that the owner held when it died gets a strike. Jobs that a late script added
-- after the death get none.
-- KEYS[1] fenced mark of the owner: number of jobs that it held, and number of strikes still to give (0 if it
--   was stopping)
-- KEYS[2] set of known queues
-- KEYS[3...] private list, queue, and of a fenced owner strikes; of each job
-- ARGV[1] identity of the fenced owner; empty if the owner itself calls this
-- ARGV[2] expiry of a strike in seconds
-- ARGV[3...] payload as it was claimed, payload to store, name of the queue; for each job
-- returns {1, 0 if it is no longer in its list, -1 if its queue refuses it; for each job}, or the error FENCED if the
--   owner itself is fenced, or another one is not
local mark, is_dead = redis.call('GET', KEYS[1]), ARGV[1] ~= ''
if mark and not is_dead then return redis.error_reply('FENCED this identity was declared dead') end
if is_dead and not mark then return redis.error_reply('FENCED the owner is not fenced, so it may be alive') end
local held, left = string.match(mark or '', '^(%d+) (%d+)$')
left = tonumber(left or 0)
local time = redis.call('TIME')
local now, moved, width = time[1] + time[2] / 1000000, {}, is_dead and 3 or 2
for i = 1, (#ARGV - 2) / 3 do
  local at = 3 + width * (i - 1)
  local raw, payload, name = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  moved[i] = 0
  if redis.call('LPOS', KEYS[at], raw) then
    -- A queue of the wrong type must not block the jobs of other queues.
    local pushed = redis.pcall('RPUSH', KEYS[at + 1], payload)
    if type(pushed) == 'table' then
      moved[i] = -1
    else
      redis.pcall('SADD', KEYS[2], name)
      if left > 0 then
        left = left - 1
        redis.pcall('ZREMRANGEBYSCORE', KEYS[at + 2], '-inf', string.format('%.6f', now - ARGV[2]))
        redis.pcall('ZADD', KEYS[at + 2], string.format('%.6f', now), ARGV[1])
        redis.pcall('EXPIRE', KEYS[at + 2], ARGV[2])
      end
      redis.call('LREM', KEYS[at], 1, raw)
      moved[i] = 1
    end
  end
end
if held then redis.call('SET', KEYS[1], held .. ' ' .. left, 'KEEPTTL') end
return moved
