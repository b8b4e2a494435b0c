"""The only floor that knows keys, commands and Lua."""
