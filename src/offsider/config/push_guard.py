"""The push guard: an extension point that lets a script decide on the server whether a job is stored.

A client calls the guard of its configuration after client middleware. For the jobs that the guard takes, the client
runs the guard's script instead of LPUSH and ZADD. The script stores the jobs, except those that it refuses. So the
decision and the storing are one atomic step, and async clients and bulk pushes need no extra code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from offsider.core.payload import JobPayload
from offsider.runtime.middleware import Push
from offsider.storage.keys import Keys
from offsider.storage.scripts import Call


class Storable(Protocol):
    """A push that is ready to be stored; `client.Prepared` implements it."""

    @property
    def payload(self) -> JobPayload: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def queue(self) -> str: ...
    @property
    def at(self) -> float | None: ...
    @property
    def server(self) -> str: ...


class PushGuard(Protocol):
    """The interface of ``config.push_guard``. Must be thread-safe."""

    def concerns(self, push: Push) -> bool:
        """Return whether the guard may take a push with these options; called before its arguments are known.

        Must be fast, because bulk pushes call it.
        """
        ...

    def take(self, push: Push, at: float | None) -> bool:
        """Return whether the guard's script stores this job. The guard may change the payload here.

        Args:
            push: a push with the reason ``"push"``, after client middleware.
            at: epoch seconds when the job is due; None for now.

        Raises:
            InvalidJob: the options of the job are invalid.
        """
        ...

    def due(self, push: Push, now: float) -> float | None:
        """Return when a push without a time is due, in epoch seconds; None for now.

        Raises:
            InvalidJob: the options of the job are invalid.
        """
        ...

    def call(self, keys: Keys, jobs: Sequence[Storable]) -> Call:
        """Return the script call that stores the taken jobs, which are all for one queue, or all scheduled.

        The script returns nothing if it stored all of them; else a string for each job. It is empty, or starts with a
        zero byte, if the job is stored.
        If the server has not loaded the script yet, the call is sent again with the same jobs.
        """
        ...

    def refused(self, jobs: Sequence[Storable], reply: Any) -> Sequence[int]:
        """Return the indexes of the jobs that the script refused, from its reply."""
        ...
