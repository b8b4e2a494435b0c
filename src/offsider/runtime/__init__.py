"""What runs in every process: services, events, contexts, forks, middleware."""
