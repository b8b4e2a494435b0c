"""Kills a process at a chosen request to a server.

Requests are counted instead of function calls: the package has no hook for this, and the points stay the same when the
code between changes.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

REPLY_MS = 30_000


def die_at(
    number: int,
    *,
    after: bool,
    is_counted: Callable[[bytes], bool] = lambda request: True,
    before_death: Callable[[bytes], object] = lambda request: None,
) -> None:
    """Have this process die as after ``kill -9`` before a request is sent, or after the server has executed it.

    Args:
        number: of the request among those that count, from 1.
        after: send the request, and wait for its reply without reading it.
        is_counted: whether a request counts.
        before_death: called with the request.
    """
    counter = itertools.count(1)

    def around(send: Callable[..., Any]) -> Callable[..., Any]:
        def sending(connection: socket.socket, data: Any, *flags: int) -> Any:
            request = bytes(data)
            if is_counted(request) and next(counter) == number:
                before_death(request)
                if after:
                    send(connection, data, *flags)
                    poller = select.poll()
                    poller.register(connection, select.POLLIN)
                    poller.poll(REPLY_MS)
                os.kill(os.getpid(), signal.SIGKILL)
            return send(connection, data, *flags)

        return sending

    for name in ("sendall", "send"):
        setattr(socket.socket, name, around(getattr(socket.socket, name)))


def die_as_told(is_counted: Callable[[bytes], bool]) -> None:
    """Die at the request in the variable DIE, which has ``before`` or ``after``, and a number; else at none."""
    when, number = os.environ.get("DIE", "before 0").split()
    die_at(int(number), after=when == "after", is_counted=is_counted)
