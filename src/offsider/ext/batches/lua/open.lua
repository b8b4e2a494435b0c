#!lua
-- Create or reopen a batch for a block of pushes. An open batch pushes no callback, so none is pushed too early.
-- KEYS[1] batches: zset of bid -> expiry
-- KEYS[2] batch
-- KEYS[3] tokens of its open blocks
-- KEYS[4] jids of its success callbacks
-- KEYS[5] parent batch; without one, the batch
-- KEYS[6] bids of the parent's children
-- KEYS[7] bids of the children that the parent waits for
-- KEYS[8...] further keys of the batch, and those of ancestors that must live as long
-- ARGV[1] token of the block
-- ARGV[2] bid
-- ARGV[3] life in seconds
-- ARGV[4] number of success callbacks
-- ARGV[5...] jids of the callbacks; then field, value of a new batch; no fields: reopen
-- returns 1 opened, 0 there is no such batch, -1 it has succeeded, -2 its parent has succeeded or does not exist
local bid, calls = ARGV[2], tonumber(ARGV[4])
local exists = redis.call('EXISTS', KEYS[2]) == 1
local time = redis.call('TIME')
local now, now_ms = time[1], string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
if not exists and #ARGV == 4 + calls then return 0 end
if redis.call('HEXISTS', KEYS[2], 'success_at') == 1 then return -1 end
if not exists then
  if KEYS[5] ~= KEYS[2] then
    if redis.call('EXISTS', KEYS[5]) == 0 or redis.call('HEXISTS', KEYS[5], 'success_at') == 1 then return -2 end
    redis.call('SADD', KEYS[6], bid)
    redis.call('SADD', KEYS[7], bid)
    for i = 6, 7 do redis.call('PEXPIRE', KEYS[i], redis.call('PTTL', KEYS[5])) end
  end
  for i = 1, calls do redis.call('SADD', KEYS[4], ARGV[4 + i]) end
  for i = 5 + calls, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
  redis.call('HSET', KEYS[2], 'created_at', now_ms)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[2], 'opened_at', now_ms)
for i = 2, #KEYS do
  if i < 5 or i > 7 then
    if redis.call('TTL', KEYS[i]) < tonumber(ARGV[3]) then redis.call('EXPIRE', KEYS[i], ARGV[3]) end
  end
end
redis.call('ZADD', KEYS[1], now + redis.call('TTL', KEYS[2]), bid)
return 1
