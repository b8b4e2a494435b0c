#!lua flags=allow-oom
-- Move jobs from the private lists of a fenced owner to the head of their queues. Each job that the owner held when it
-- died gets a strike. Jobs that a late script added after the death get none.
-- KEYS[1] fenced mark of the owner: number of jobs that it held, and number of strikes still to give (0 if it
--   was stopping)
-- KEYS[2] set of known queues
-- KEYS[3...] private list, queue, strikes; of each job
-- ARGV[1] identity of the owner
-- ARGV[2] expiry of a strike in seconds
-- ARGV[3...] payload as it was claimed, payload to store, name of the queue; for each job
-- returns {1, 0 if it is no longer in its list, -1 if its queue refuses it; for each job}, or the error FENCED if the
--   owner is not fenced
local mark = redis.call('GET', KEYS[1])
if not mark then return redis.error_reply('FENCED the owner is not fenced, so it may be alive') end
local held, left = string.match(mark, '^(%d+) (%d+)$')
left = tonumber(left or 0)
local time = redis.call('TIME')
local now, moved = time[1] + time[2] / 1000000, {}
for i = 1, (#ARGV - 2) / 3 do
  local list, queue, strikes = KEYS[3 * i], KEYS[3 * i + 1], KEYS[3 * i + 2]
  local raw, payload, name = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  moved[i] = 0
  if redis.call('LPOS', list, raw) then
    -- A queue of the wrong type must not block the jobs of other queues.
    local pushed = redis.pcall('RPUSH', queue, payload)
    if type(pushed) == 'table' then
      moved[i] = -1
    else
      redis.pcall('SADD', KEYS[2], name)
      if left > 0 then
        left = left - 1
        redis.pcall('ZREMRANGEBYSCORE', strikes, '-inf', string.format('%.6f', now - ARGV[2]))
        redis.pcall('ZADD', strikes, string.format('%.6f', now), ARGV[1])
        redis.pcall('EXPIRE', strikes, ARGV[2])
      end
      redis.call('LREM', list, 1, raw)
      moved[i] = 1
    end
  end
end
if held then redis.call('SET', KEYS[1], held .. ' ' .. left, 'KEEPTTL') end
return moved
