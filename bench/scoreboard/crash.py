"""Kills a worker at a chosen request to the server: before it is sent, or after the server has executed it.

1. A row sets ``SCOREBOARD_CRASH`` in the environment of one worker: a regular expression, the number of the matching
   request, and ``before`` or ``after``.
2. The application calls `install`, which wraps the sockets of that process only.
3. At the request, the process records the request in the ledger, and exits as after ``kill -9``. ``after`` waits for
   the reply, so that the server has executed the request but the worker has not processed the reply.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.scoreboard.ledger import Ledger
from offsider.storage import scripts
from tests.process.dying import die_at

VARIABLE = "SCOREBOARD_CRASH"

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

    @property
    def when(self) -> str:
        return "after" if self.after else "before"

    def as_text(self) -> str:
        return f"{self.when} {self.number} {self.pattern}"

    @classmethod
    def from_text(cls, text: str) -> Point:
        when, number, pattern = text.split(" ", 2)
        return cls(pattern, int(number), when == "after")


def install(ledger: Ledger) -> None:
    """Have this process die if its environment defines a crash point, and record the request in the ledger."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    point = Point.from_text(text)
    pattern = re.compile(point.pattern.encode(), re.DOTALL)
    die_at(
        point.number,
        after=point.after,
        is_counted=lambda request: request.startswith(b"*") and pattern.search(request) is not None,
        before_death=lambda request: ledger.count("crashes", f"{point.when}:{label(request)}"),
    )


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
