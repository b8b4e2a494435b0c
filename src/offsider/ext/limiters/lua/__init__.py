"""The scripts of limiters."""
