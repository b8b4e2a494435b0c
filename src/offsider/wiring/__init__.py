"""Configuration and the joints between parts: settings, capsules, middleware, events, services."""
