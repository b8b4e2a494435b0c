#!lua flags=allow-oom
-- Move members of a sorted set into a journal, if they are still there, each with the score that it has now.
-- Written there first, removed last.
-- KEYS[1] sorted set
-- KEYS[2] set of the names of journals
-- KEYS[3] journal
-- ARGV[1] name of the journal
-- ARGV[2...] member, number of the entry, where it goes, what to store there; for each
-- returns {1 or 0 when it was gone; for each}
local moved = {}
redis.call('SADD', KEYS[2], ARGV[1])
for i = 1, (#ARGV - 1) / 4 do
  local member = ARGV[4 * i - 2]
  local score = redis.call('ZSCORE', KEYS[1], member)
  moved[i] = 0
  if score then
    redis.call('LPUSH', KEYS[3], ARGV[4 * i - 1] .. ' ' .. score .. ' ' .. ARGV[4 * i] .. '\n' .. ARGV[4 * i + 1])
    redis.call('ZREM', KEYS[1], member)
    moved[i] = 1
  end
end
return moved
