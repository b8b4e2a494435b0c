#!lua flags=allow-oom
-- Shut an owner out before its jobs are taken, unless it beats again.
-- KEYS[1] alive key of the owner
-- KEYS[2] fenced mark of the owner
-- ARGV[1] seconds that the mark stays
-- returns 1, or 0 when the owner lives
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
return 1
