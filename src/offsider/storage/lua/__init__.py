"""One Lua script a verb."""
