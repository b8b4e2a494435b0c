"""Configuration: settings, their sources, and the objects that are built from them."""
