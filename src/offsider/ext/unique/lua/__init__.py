"""The scripts of unique jobs."""
