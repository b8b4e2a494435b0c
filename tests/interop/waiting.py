"""Waiting for another process: a condition, polled until it is true, with a deadline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

from tests.process.workers import children_of

T = TypeVar("T")

#: Generous, because a loaded machine is slow; a test that passes never waits for it.
DEADLINE_SECONDS = 45.0


def eventually(look: Callable[[], T], what: str, deadline_seconds: float = DEADLINE_SECONDS) -> T:
    """The first truthy result of ``look``; raises AssertionError with ``what`` at the deadline."""
    give_up = time.monotonic() + deadline_seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {deadline_seconds:.0f} s for {what}; last seen: {seen!r}")
        time.sleep(0.02)


def worker_of(parent: subprocess.Popen[bytes]) -> int:
    """The pid of the worker below ``offsider worker``."""
    return eventually(lambda: children_of(parent.pid), "the worker to start")[0]
