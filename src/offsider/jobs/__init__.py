"""Declares and enqueues jobs: functions, classes, the registry, and typed calls."""
