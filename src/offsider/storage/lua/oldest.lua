#!lua flags=no-writes,allow-oom
-- The job of each queue that runs next; of a long one only both ends, since it may be as long as 50 MB.
-- KEYS[1...] queue
-- ARGV[1] bytes up to which a job is given whole
-- ARGV[2] bytes of each end of a longer one
-- returns {payload, {beginning, end} of a long one, or nothing when there is none; for each}
local next = {}
for i, key in ipairs(KEYS) do
  local raw = redis.pcall('LINDEX', key, -1)
  next[i] = type(raw) == 'string' and raw
  if next[i] and #raw > tonumber(ARGV[1]) then
    next[i] = {string.sub(raw, 1, ARGV[2]), string.sub(raw, -ARGV[2])}
  end
end
return next
