#!lua flags=no-writes,allow-oom
-- Find finished runs in a part of the ring, without sending the part.
-- KEYS[1] ring
-- ARGV[1] first byte of the part
-- ARGV[2] last byte
-- ARGV[3] bytes of a run
-- ARGV[4] place of the bytes to find in a run
-- ARGV[5] maximum number of runs
-- ARGV[6...] bytes to find, of equal length
-- returns {place in the ring, run; of each of the last runs that match}
local part, size, inside = redis.call('GETRANGE', KEYS[1], ARGV[1], ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local places = {}
for i = 6, #ARGV do
  local at = string.find(part, ARGV[i], 1, true)
  while at do
    if (at - 1 - inside) % size == 0 then places[#places + 1] = at - inside end
    at = string.find(part, ARGV[i], at + 1, true)
  end
end
table.sort(places)
local found = {}
for i = math.max(1, #places - ARGV[5] + 1), #places do
  found[#found + 1] = ARGV[1] + places[i] - 1
  found[#found + 1] = string.sub(part, places[i], places[i] + size - 1)
end
return found
