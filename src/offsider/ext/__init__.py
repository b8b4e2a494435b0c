"""Optional features, installed by ``config.use(...)``. They do not depend on each other."""
