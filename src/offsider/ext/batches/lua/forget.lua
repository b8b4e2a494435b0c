#!lua
-- Delete a batch. Its jobs still run; its parent no longer waits for it.
-- KEYS[1] batches
-- KEYS[2] bids of the parent's children
-- KEYS[3] bids of the children that the parent waits for
-- KEYS[4...] keys of the batch
-- ARGV[1] bid
-- returns whether the batch existed
redis.call('SREM', KEYS[2], ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
local existed = redis.call('EXISTS', KEYS[4])
for i = 4, #KEYS do redis.call('DEL', KEYS[i]) end
return existed
