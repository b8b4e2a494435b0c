"""The scripts of concurrency limits."""
