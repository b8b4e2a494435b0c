"""Logging: formatters, fields, and output that does not block when the reader stops."""
