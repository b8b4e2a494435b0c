"""The web UI: what is in Redis as pages, and as JSON under the same addresses."""
