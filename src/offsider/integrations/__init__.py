"""Integrations: web frameworks, tracing, metrics, error reports. Each is imported only by programs that use it."""
