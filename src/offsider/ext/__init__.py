"""Optional features, installed by ``config.use(...)``. They never see each other."""
