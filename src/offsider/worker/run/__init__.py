"""Running a job, from the payload bytes to an outcome."""
