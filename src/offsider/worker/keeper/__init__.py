"""The keeper: a small process beside the workers that runs no user code, and so is never held up by a job."""
