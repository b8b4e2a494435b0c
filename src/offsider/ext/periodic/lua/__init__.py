"""The scripts of periodic jobs, one file per verb."""
