"""The scripts of tasks."""
