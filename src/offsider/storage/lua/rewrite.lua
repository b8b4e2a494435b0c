#!lua flags=allow-oom
-- Store other bytes in place of members of a sorted set, with the very same score, if they are still there:
-- the new one is written first, the old one removed last. A member that is there already is not overwritten.
-- KEYS[1] sorted set
-- ARGV[1...] member, what to store; for each
-- returns {1, 0 when it is gone, -1 when the other is there as well; for each}
local done = {}
for i = 1, #ARGV / 2 do
  local member, other = ARGV[2 * i - 1], ARGV[2 * i]
  local score = redis.call('ZSCORE', KEYS[1], member)
  if not score then
    done[i] = 0
  elseif redis.call('ZSCORE', KEYS[1], other) then
    done[i] = -1
  else
    redis.call('ZADD', KEYS[1], score, other)
    redis.call('ZREM', KEYS[1], member)
    done[i] = 1
  end
end
return done
