"""Kills a worker at a chosen request to the server: before it is sent, or after the server has executed it.

1. A row sets ``SCOREBOARD_CRASH`` in the environment of one worker: a regular expression, the number of the matching
   request, and ``before`` or ``after``.
2. The application calls `install`, which wraps ``send`` and ``sendall`` of sockets in that process only. The package
   itself has no hook for this.
3. At the request, the process records the request in the ledger, and exits as after ``kill -9``. ``after`` waits for
   the reply, so that the server has executed the request but the worker has not processed the reply.

Crash points are requests instead of function names, so that they survive refactoring.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.scoreboard.effects import Effects
from offsider.storage import scripts

VARIABLE = "SCOREBOARD_CRASH"
REPLY_MS = 300

_COMMAND = re.compile(rb"^\*\d+\r\n\$\d+\r\n(\w+)\r\n(?:\$40\r\n([0-9a-f]{40})\r\n)?", re.MULTILINE)


@dataclass(frozen=True)
class Point:
    """A crash point.

    Attributes:
        pattern: regular expression for the bytes of a request.
        number: number of the matching request, from 1.
        after: crash after the server has executed it, else before it is sent.
    """

    pattern: str
    number: int
    after: bool

    def as_text(self) -> str:
        return f"{'after' if self.after else 'before'} {self.number} {self.pattern}"

    @classmethod
    def from_text(cls, text: str) -> Point:
        when, number, pattern = text.split(" ", 2)
        return cls(pattern, int(number), when == "after")


def install(effects: Effects) -> None:
    """Wrap the sockets of this process if its environment defines a crash point."""
    if text := os.environ.get(VARIABLE):
        crash = _Crash(Point.from_text(text), effects)
        for name in ("sendall", "send"):
            setattr(socket.socket, name, crash.around(getattr(socket.socket, name)))


class _Crash:
    def __init__(self, point: Point, effects: Effects) -> None:
        self._point = point
        self._pattern = re.compile(point.pattern.encode(), re.DOTALL)
        self._effects = effects
        self._lock = threading.Lock()
        self._seen = 0
        self._dying = False

    def around(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def sending(connection: socket.socket, data: Any, *flags: int) -> Any:
            request = bytes(data)
            if not self._dying and request.startswith(b"*") and self._is_now(request):
                self._die(connection, request, send)
            return send(connection, data, *flags)

        return sending

    def _is_now(self, request: bytes) -> bool:
        if not self._pattern.search(request):
            return False
        with self._lock:
            self._seen += 1
            return self._seen == self._point.number

    def _die(self, connection: socket.socket, request: bytes, send: Callable[..., Any]) -> None:
        self._dying = True
        self._effects.count("crashes", f"{'after' if self._point.after else 'before'}:{label(request)}")
        if self._point.after:
            send(connection, request)
            poller = select.poll()
            poller.register(connection, select.POLLIN)
            poller.poll(REPLY_MS)
        os.kill(os.getpid(), signal.SIGKILL)


def label(request: bytes) -> str:
    """Return the name of a request: its scripts with their effects, else its commands."""
    known = [*scripts._every]  # noqa: SLF001 - only for names
    if b"\r\nEVAL\r\n" in request:  # a script that the server has not loaded yet is sent as text
        texts = (script for script in known if script.text.encode() in request)
        return next((_with_effects(script, known) for script in texts), "eval")
    by_sha = {script.sha.encode(): script for script in known}
    found = [
        _with_effects(by_sha[sha], known) if sha in by_sha else command.decode().lower()
        for command, sha in _COMMAND.findall(request)
    ]
    return "+".join(dict.fromkeys(found)) or "request"


def _with_effects(script: scripts.Script, known: Sequence[scripts.Script]) -> str:
    bodies = [(one.name, f"function(KEYS, ARGV)\n{one.source.partition(chr(10))[2]}end") for one in known]
    return "+".join([script.name, *sorted(name for name, body in bodies if body in script.source)])
