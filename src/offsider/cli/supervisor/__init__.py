"""``offsider worker --processes N``: a parent process that forks and supervises workers and runs no jobs itself."""
