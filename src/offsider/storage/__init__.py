"""The storage layer: keys, commands and Lua."""
