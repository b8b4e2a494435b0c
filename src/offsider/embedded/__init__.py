"""A private Redis-compatible server for development, demos and tests: no service to install, no shared port."""

from offsider.embedded.server import EmbeddedServer, find_server_binary, wheel_binary

__all__ = ["EmbeddedServer", "find_server_binary", "wheel_binary"]
