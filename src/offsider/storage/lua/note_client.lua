#!lua flags=allow-oom
-- Note that a client pushes, by the server's clock: clients' clocks differ by minutes, and all are compared.
-- KEYS[1] sorted set of clients
-- ARGV[1] name of the client
-- ARGV[2] seconds after which a silent one is forgotten
-- returns nothing
local now = redis.call('TIME')[1]
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[2])
