"""Ways into other programs: web frameworks, tracing, metrics, error reports. Each is imported by whoever wants it."""
