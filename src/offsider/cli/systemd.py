"""Telling systemd how the worker fares: ready, alive, stopping. Does nothing where systemd does not ask for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from offsider.wiring.logs import logger

SHORTEST_SECONDS = 1.0


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send ``READY=1``, ``STOPPING=1`` or ``WATCHDOG=1``; False when nobody listens."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket of Linux
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as sender:
            sender.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("systemd was not told %s: %s", state, error)
        return False
    return True


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """How often to send ``WATCHDOG=1``: half of what systemd waits. None when it does not watch this process."""
    text = environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    limit_seconds = int(text) / 1_000_000
    if limit_seconds < SHORTEST_SECONDS:
        logger.error(
            "systemd's watchdog of %g s is too short and is not served: set WatchdogSec to 1 s or more", limit_seconds
        )
        return None
    return limit_seconds / 2
