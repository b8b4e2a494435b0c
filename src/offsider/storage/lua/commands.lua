#!lua flags=allow-oom
-- Run commands as one step. A script, because a full server refuses plain writes, and commands in a MULTI; operators
-- and workers must be able to free memory there.
-- KEYS[1...] key of each command
-- ARGV[1...] name of the command, number of its arguments after the key, these arguments; for each command
-- returns {reply of each command}
local replies, at = {}, 1
for i, key in ipairs(KEYS) do
  local last = at + 1 + ARGV[at + 1]
  replies[i] = redis.call(ARGV[at], key, unpack(ARGV, at + 2, last))
  at = last + 1
end
return replies
