"""The pytest plugin: fixtures for applications with jobs."""
