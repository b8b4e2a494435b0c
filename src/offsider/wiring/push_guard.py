"""Who decides on the server, in the one step that stores a job, whether it may be stored at all.

A client asks the guard of its configuration after client middleware. For the jobs that the guard takes, a script of
its own stands in place of LPUSH and ZADD: it stores all, or leaves out those that it refuses. So there is no moment
at which a job is decided about and not stored, and asynchronous clients and bulk pushes need nothing of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from offsider.core.payload import JobPayload
from offsider.storage.keys import Keys
from offsider.storage.scripts import Call
from offsider.wiring.middleware import Push


class Storable(Protocol):
    """A push that is ready to be stored; what `client.Prepared` is."""

    @property
    def payload(self) -> JobPayload: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def queue(self) -> str: ...
    @property
    def at(self) -> float | None: ...


class PushGuard(Protocol):
    """What ``config.push_guard`` is. Threads share it."""

    def concerns(self, payload: Mapping[str, Any]) -> bool:
        """Whether a job with these options may be taken; its arguments are not known yet. Quick: bulk pushes ask."""
        ...

    def take(self, push: Push, at: float | None) -> bool:
        """Whether this job is stored by the guard's script. Here it may still change the payload.

        Args:
            push: a first push, with the payload as client middleware left it.
            at: epoch seconds at which it is due; None for now.

        Raises:
            InvalidJob: its options do not fit.
        """
        ...

    def call(self, keys: Keys, jobs: Sequence[Storable]) -> Call:
        """The script that stores jobs that were taken: all for one queue, or all for later. It is sent once more with
        the same jobs when the server does not know it yet.
        """
        ...

    def refused(self, jobs: Sequence[Storable], reply: Any) -> Sequence[int]:
        """The places of the jobs that were not stored, by the script's reply."""
        ...
