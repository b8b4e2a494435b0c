#!lua flags=allow-oom
-- Return the last handled tick of each periodic job, by the server's clock, and the added and paused jobs.
-- The last tick of an unknown job is now, or the tick that the caller remembers: after a loss of data the server must
-- neither repeat ticks nor lose the next ones.
-- KEYS[1] ticks: hash of name -> epoch seconds
-- KEYS[2] entries: hash of name -> entry added at run time
-- KEYS[3] paused: hash of name -> who paused it, when and why
-- ARGV[1...] name and remembered tick (epoch seconds or 0) of each job that the caller knows
-- returns {seconds, microseconds, {name, epoch seconds, ...}, {name, entry, ...}, {paused name, ...}}
local time = redis.call('TIME')
local added = redis.call('HGETALL', KEYS[2])
local ticks = {}
local function look(name, remembered)
  local last = redis.call('HGET', KEYS[1], name)
  if not last or not string.match(last, '^%d+$') or #last > 15 then  -- unknown, or spoilt by another program
    last = remembered == '0' and time[1] or remembered
    redis.call('HSET', KEYS[1], name, last)
  end
  ticks[#ticks + 1] = name
  ticks[#ticks + 1] = last
end
for i = 1, #ARGV, 2 do look(ARGV[i], ARGV[i + 1]) end
for i = 1, #added, 2 do look(added[i], '0') end
return {time[1], time[2], ticks, added, redis.call('HKEYS', KEYS[3])}
