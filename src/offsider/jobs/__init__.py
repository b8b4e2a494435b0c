"""Declaring jobs and enqueuing them: functions, classes, the registry, and the typed calls on all of them."""
