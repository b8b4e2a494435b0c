"""Decides where a job goes after its run, and reports it."""
