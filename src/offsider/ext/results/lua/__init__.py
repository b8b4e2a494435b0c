"""The scripts of states and results."""
