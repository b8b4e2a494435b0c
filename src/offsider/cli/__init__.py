"""The command ``offsider``."""
