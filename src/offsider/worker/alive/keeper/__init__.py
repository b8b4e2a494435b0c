"""The keeper: a small process beside the workers. It runs no user code, so no job can block it."""
