"""Which processes are alive, and what happens to the jobs of dead ones."""
