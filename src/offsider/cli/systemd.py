"""Notify systemd of the worker's state: ready, alive, stopping. Does nothing without systemd's variables."""

from __future__ import annotations

import math
import os
import socket
import time
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


class SystemdWatchdog:
    """Sends ``WATCHDOG=1`` in time, if systemd watches this process.

    Attributes:
        due_at: time of the next notification, by the monotonic clock; infinite without a watchdog.
    """

    def __init__(self) -> None:
        self._interval_seconds = watchdog_seconds()
        self.due_at = 0.0 if self._interval_seconds is not None else math.inf

    def feed(self) -> None:
        """Send the notification if it is due."""
        now = time.monotonic()
        if self._interval_seconds is not None and now >= self.due_at:
            notify("WATCHDOG=1")
            self.due_at = now + self._interval_seconds
