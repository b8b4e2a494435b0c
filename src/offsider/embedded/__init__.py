"""A private Redis-compatible server for development, demos and tests: no service to install, no shared port."""

from offsider.embedded.binary import find_server_binary, wheel_binary
from offsider.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "find_server_binary", "wheel_binary"]
