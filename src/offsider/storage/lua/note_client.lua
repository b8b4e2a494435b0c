#!lua flags=allow-oom
-- Renew the entry of a client, by the server's clock: clocks of clients can differ by minutes.
-- KEYS[1] sorted set of clients
-- ARGV[1] name of the client
-- ARGV[2] expiry of an entry in seconds
-- returns nothing
local now = redis.call('TIME')[1]
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[2])
