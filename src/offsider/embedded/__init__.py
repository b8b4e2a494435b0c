"""A Redis-compatible server of one's own for development, demos and tests: no service to install, no port to share."""

from offsider.embedded.binary import find_server_binary, wheel_binary
from offsider.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "find_server_binary", "wheel_binary"]
