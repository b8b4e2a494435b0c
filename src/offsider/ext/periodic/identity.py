"""The identity that claims ticks, for the history and for turns."""

from __future__ import annotations

import os
import secrets
import socket


def here() -> str:
    """Return ``host:pid:nonce``, unique for each call."""
    return f"{os.environ.get('DYNO') or socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
