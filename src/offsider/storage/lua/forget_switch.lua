#!lua flags=allow-oom
-- Take away a switch that is over, with its count. Not plain commands, because somebody may set it again meanwhile.
-- KEYS[1] switches by class
-- KEYS[2] jobs that they acted on, by class
-- ARGV[1] class
-- ARGV[2] the switch as it was read
-- returns 1, or 0 when it is another one, or gone
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
