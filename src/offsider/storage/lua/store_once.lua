#!lua flags=allow-oom
-- Store transferred jobs, each once: a mark shows that this transfer has stored its job. A repetition of the transfer
-- stores nothing while the mark exists.
-- KEYS[1] set of known queues
-- KEYS[2...] mark, queue or sorted set; for each job
-- ARGV[1] expiry of a mark in seconds
-- ARGV[2...] name of the queue or empty for a set, score, payload; for each job
-- returns {1, 0 if it was stored before, or the error of its destination; for each job}
local stored = {}
for i = 1, (#ARGV - 1) / 3 do
  local mark, target = KEYS[2 * i], KEYS[2 * i + 1]
  local name, score, payload = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  stored[i] = 0
  if redis.call('SET', mark, 1, 'NX', 'EX', ARGV[1]) then
    local reply
    if name ~= '' then
      redis.pcall('SADD', KEYS[1], name)
      reply = redis.pcall('LPUSH', target, payload)
    else
      reply = redis.pcall('ZADD', target, score, payload)
    end
    stored[i] = 1
    if type(reply) == 'table' then
      redis.call('DEL', mark)
      stored[i] = reply.err .. ' (' .. target .. ')'
    end
  end
end
return stored
