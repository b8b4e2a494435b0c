#!lua
-- Append finished runs to a ring: a string of fixed size, whose end is continued at its start. A script, because the
-- ids of the kinds and the place must belong to one moment.
-- KEYS[1] ring
-- KEYS[2] kinds: id -> bytes ever written when it got the id, a space, kind; kind -> id; `named`; `written`
-- ARGV[1] bytes of the ring
-- ARGV[2] maximum number of kinds; beyond it, the kind that was named first loses its id
-- ARGV[3] expiry in seconds
-- ARGV[4] the runs
-- ARGV[5...] id and kind of each kind of these runs
-- returns the id of each kind, if one differs and nothing was written; otherwise nothing
local size, ids, same = tonumber(ARGV[1]), {}, true
for i = 5, #ARGV, 2 do
  local kind = ARGV[i + 1]
  local id = redis.call('HGET', KEYS[2], kind)
  if not id then
    id = tostring(redis.call('HINCRBY', KEYS[2], 'named', 1) % ARGV[2])
    local former = redis.call('HGET', KEYS[2], id)
    if former then redis.call('HDEL', KEYS[2], string.match(former, ' (.*)')) end
    local written = former and redis.call('HGET', KEYS[2], 'written') or 0
    redis.call('HSET', KEYS[2], id, written .. ' ' .. kind, kind, id)
  end
  ids[#ids + 1], same = tonumber(id), same and id == ARGV[i]
end
if same then
  local runs = ARGV[4]
  local place = (redis.call('HINCRBY', KEYS[2], 'written', #runs) - #runs) % size
  local fits = size - place
  redis.call('SETRANGE', KEYS[1], place, string.sub(runs, 1, fits))
  if #runs > fits then redis.call('SETRANGE', KEYS[1], 0, string.sub(runs, fits + 1)) end
  ids = {}
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return ids
