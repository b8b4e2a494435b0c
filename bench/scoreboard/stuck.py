"""Ways for a job to hang. Exceptions that arrive are recorded, and raised again unless the job suppresses them."""

from __future__ import annotations

import queue
import socket
import subprocess
import threading
import time
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
    in_recv(SECONDS)


def in_recv(timeout_seconds: float | None = None) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(timeout_seconds)
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


_WAYS = (in_python, in_sleep, in_child, in_recv_with_timeout, in_recv, in_queue, in_lock, in_c_code, in_bare_except)
WAYS = {way.__name__.removeprefix("in_"): way for way in (*_WAYS, in_finally)}
ALL_KINDS = ("asyncio", *WAYS)
SOME_KINDS = ("asyncio", "python", "recv", "bare_except")
#: Ways in which an exception can interrupt the job: in an await, and between bytecodes of Python if this CPython can.
REACHED = {"asyncio"} if OBSTACLE else {"python", "finally", "asyncio"}
#: It depends on the machine whether the limit is detected before this one has ended.
ENDS_ITSELF = {"c_code"}
