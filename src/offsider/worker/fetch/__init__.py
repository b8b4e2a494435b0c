"""Takes jobs from their queues and writes where they go."""
