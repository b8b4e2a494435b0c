"""Notify systemd of the worker's state: ready, alive, stopping. Does nothing without systemd's variables."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from offsider.logs.setup import logger

SHORTEST_SECONDS = 1.0


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send ``READY=1``, ``STOPPING=1`` or ``WATCHDOG=1``; return False without systemd or after a failure."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket of Linux
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as sender:
            sender.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("cannot notify systemd of %s: %s", state, error)
        return False
    return True


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the interval of ``WATCHDOG=1``, half of systemd's timeout; None if it does not watch this process."""
    text = environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    limit_seconds = int(text) / 1_000_000
    if limit_seconds < SHORTEST_SECONDS:
        logger.error(
            "systemd's watchdog of %g s is too short and is ignored: set WatchdogSec to at least 1 s", limit_seconds
        )
        return None
    return limit_seconds / 2
