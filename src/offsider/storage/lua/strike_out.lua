#!lua flags=allow-oom
-- Remove the entries of a journal that were stored on the other server: it is written in the order of its numbers,
-- so these are the oldest. An empty journal is forgotten.
-- KEYS[1] journal
-- KEYS[2] set of the names of journals
-- ARGV[1] name of the journal
-- ARGV[2] number of the last entry that was stored
-- returns how many were removed
local removed = 0
while true do
  local entry = redis.call('LINDEX', KEYS[1], -1)
  if not entry or tonumber(string.match(entry, '^%d+')) > tonumber(ARGV[2]) then break end
  redis.call('RPOP', KEYS[1])
  removed = removed + 1
end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return removed
