#!lua flags=allow-oom
-- Store the jobs of another server's journal, each once: the number of the last one is noted in the same step,
-- so whoever comes again with some of them, however late, stores none of these.
-- KEYS[1] number of the last entry that was stored
-- KEYS[2] set of known queues
-- KEYS[3...] queue or sorted set of each job
-- ARGV[1] how many seconds the number is kept
-- ARGV[2...] number of the entry, name of the queue or empty for a set, score, payload; for each, the oldest first
-- returns {number of the last entry that is stored, why the next was refused or an empty string}
local last, refused = tonumber(redis.call('GET', KEYS[1]) or 0), ''
for i = 1, (#ARGV - 1) / 4 do
  local number, name, score, payload = tonumber(ARGV[4 * i - 2]), ARGV[4 * i - 1], ARGV[4 * i], ARGV[4 * i + 1]
  if number > last then
    local stored
    if name ~= '' then
      redis.pcall('SADD', KEYS[2], name)
      stored = redis.pcall('LPUSH', KEYS[2 + i], payload)
    else
      stored = redis.pcall('ZADD', KEYS[2 + i], score, payload)
    end
    if type(stored) == 'table' then
      refused = stored.err .. ' (' .. KEYS[2 + i] .. ')'
      break
    end
    last = number
    redis.call('SET', KEYS[1], string.format('%.0f', last), 'EX', ARGV[1])
  end
end
return {last, refused}
