"""Waiting for another process: a condition, polled until it is true, with a deadline."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from tests.process.workers import children_of
from tests.waiting import T, wait_for


def eventually(look: Callable[[], T], what: str, seconds: float = 60.0) -> T:
    """As `wait_for`; each wait here says what for."""
    return wait_for(look, seconds, what)


def worker_of(parent: subprocess.Popen[bytes]) -> int:
    """The pid of the worker below ``offsider worker``."""
    return eventually(lambda: children_of(parent.pid), "the worker to start")[0]
