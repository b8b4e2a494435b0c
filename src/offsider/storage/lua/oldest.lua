#!lua flags=no-writes,allow-oom
-- Read the next job of each queue; only both ends of a long payload, which can have 50 MB.
-- KEYS[1...] queue
-- ARGV[1] maximum bytes of a payload that is returned whole
-- ARGV[2] bytes of each end of a longer payload
-- returns {payload, {start, end} of a long payload, or nothing for an empty queue; for each}
local next = {}
for i, key in ipairs(KEYS) do
  local raw = redis.pcall('LINDEX', key, -1)
  next[i] = type(raw) == 'string' and raw
  if next[i] and #raw > tonumber(ARGV[1]) then
    next[i] = {string.sub(raw, 1, ARGV[2]), string.sub(raw, -ARGV[2])}
  end
end
return next
