"""Ways for a job to hang. Exceptions that arrive are recorded, and raised again unless the job suppresses them."""

from __future__ import annotations

import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from offsider.worker.run.interrupt import OBSTACLE

SECONDS = 40.0
#: C code that keeps the GIL returns after a few seconds, because it cannot be interrupted.
C_STEPS = 60_000_000


def in_python() -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(0.01)


def in_sleep() -> None:
    time.sleep(SECONDS)


def in_child() -> None:
    subprocess.run(["sleep", str(SECONDS)], check=False)


def in_recv_with_timeout() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(SECONDS)
        ours.recv(1)


def in_recv() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)


def in_queue() -> None:
    queue.SimpleQueue[None]().get()


def in_lock() -> None:
    lock = threading.Lock()
    with lock:
        lock.acquire()


def in_c_code() -> None:
    sum(range(C_STEPS))


def in_bare_except() -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with suppress(BaseException):
            time.sleep(0.01)


def in_finally() -> None:
    try:
        in_python()
    finally:
        time.sleep(0.5)


WAYS: dict[str, Callable[[], None]] = {
    "python": in_python,
    "sleep": in_sleep,
    "child": in_child,
    "recv_with_timeout": in_recv_with_timeout,
    "recv": in_recv,
    "queue": in_queue,
    "lock": in_lock,
    "c_code": in_c_code,
    "bare_except": in_bare_except,
    "finally": in_finally,
    "long": in_python,
}
ALL_KINDS = ("asyncio", *(kind for kind in WAYS if kind != "long"))
SOME_KINDS = ("asyncio", "python", "recv", "bare_except")
#: Ways in which an exception can interrupt the job: in an await, and between bytecodes of Python if this CPython can.
REACHED = {"asyncio"} if OBSTACLE else {"python", "finally", "asyncio"}
#: It depends on the machine whether the limit is detected before this one has ended.
ENDS_ITSELF = {"c_code"}
