#!lua flags=allow-oom
-- Up to when the ticks of each periodic job are dealt with, by the server's clock; and what was added and paused.
-- One that has never been seen is dealt with up to now, or up to where the caller remembers: a server that has lost
-- its data must neither repeat ticks nor lose those to come.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] entries: hash of name -> what was added at run time
-- KEYS[3] paused: set of names
-- ARGV[1...] name, epoch seconds that the caller remembers or 0; for each job that it knows
-- returns {seconds, microseconds, {name, epoch seconds, ...}, {name, entry, ...}, {paused name, ...}}
local time = redis.call('TIME')
local added = redis.call('HGETALL', KEYS[2])
local ticks = {}
local function look(name, remembered)
  local last = redis.call('HGET', KEYS[1], name)
  if not last then
    last = remembered == '0' and time[1] or remembered
    redis.call('HSET', KEYS[1], name, last)
  end
  ticks[#ticks + 1] = name
  ticks[#ticks + 1] = last
end
for i = 1, #ARGV, 2 do look(ARGV[i], ARGV[i + 1]) end
for i = 1, #added, 2 do look(added[i], '0') end
return {time[1], time[2], ticks, added, redis.call('SMEMBERS', KEYS[3])}
