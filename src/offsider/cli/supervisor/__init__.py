"""``offsider worker --processes N``: a parent that forks workers, looks after them and runs no jobs itself."""
