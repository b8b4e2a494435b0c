"""Running jobs: launcher, managers, processors, and the services beside them."""
