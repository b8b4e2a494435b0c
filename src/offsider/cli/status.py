"""The state of a process for other programs: its title in ``ps`` and ``top``, and notifications of systemd.

The title needs the package setproctitle. Notifications do nothing without systemd's variables.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsider import __version__
from offsider.core.wording import counted
from offsider.logs.setup import logger

if TYPE_CHECKING:
    from offsider.worker.launcher import Launcher

MIN_WATCHDOG_SECONDS = 1.0


def title(launcher: Launcher) -> str:
    """Return the process title: name, version, tag, busy threads, and whether the worker is stopping."""
    words = ["offsider", __version__, launcher.config.worker.tag]
    concurrency = sum(capsule.concurrency for capsule in launcher.config.capsules.values())
    words.append(f"[{launcher.work_state.busy} of {concurrency} busy]")
    if launcher.lifecycle.quieted:
        words.append("stopping")
    return " ".join(word for word in words if word)


def title_setter() -> Callable[[str], None]:
    """Return a function that sets the title; it does nothing if setproctitle is not installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return lambda _title: None
    return setproctitle


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send ``READY=1``, ``STOPPING=1`` or ``WATCHDOG=1`` to systemd."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket of Linux
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)) as sender:
            sender.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("cannot notify systemd of %s: %s", state, error)


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the interval of ``WATCHDOG=1``, half of systemd's timeout; None if it does not watch this process."""
    text = environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    limit_seconds = int(text) / 1_000_000
    if limit_seconds < MIN_WATCHDOG_SECONDS:
        logger.error(
            "systemd's watchdog of %g s is too short and is ignored: set WatchdogSec to at least 1 s", limit_seconds
        )
        return None
    return limit_seconds / 2


class ParentStatus:
    """Shows the number of running workers in the process title, and notifies systemd once all run, and from then on.

    Args:
        tag: the tag in the title.
        show: whether the log has a line once all workers run.

    Attributes:
        due_at: time of the next notification of the watchdog, by the monotonic clock; infinite without one.
    """

    def __init__(self, tag: str, *, show: bool) -> None:
        self._tag = tag
        self._show = show
        self._set_title = title_setter()
        self._title = ""
        self._ready = False
        self._interval_seconds = watchdog_seconds()
        self.due_at = math.inf

    def write(self, ready: int, expected: int, *, stopping: bool) -> None:
        """Update the title with the number of running workers, and notify systemd if that is due."""
        words = ["offsider", __version__, self._tag, f"parent [{ready} of {expected} run]"]
        title = " ".join(word for word in (*words, "stopping" if stopping else "") if word)
        if title != self._title:
            self._set_title(title)
            self._title = title
        now = time.monotonic()
        if ready == expected and not self._ready:
            self._ready = True
            if self._show:
                logger.info("now running: %s", counted(expected, "worker"))
            notify("READY=1")
            self.due_at = math.inf if self._interval_seconds is None else now
        if self._interval_seconds is not None and now >= self.due_at:
            notify("WATCHDOG=1")
            self.due_at = now + self._interval_seconds
