"""Decide where a stored job belongs by the current rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from offsider.config.routing import known_job, route
from offsider.core.errors import ConfigurationError, MalformedPayload
from offsider.core.normalize import normalize
from offsider.core.options import check_queue_name
from offsider.core.payload import decode

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.payload import JobPayload


class Why(Enum):
    """Why a job stays."""

    IN_PLACE = auto()
    UNDECLARED = auto()
    UNREADABLE = auto()
    NOT_SELECTED = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A queue of a server."""

    server: str
    queue: str


@dataclass(frozen=True, slots=True)
class Stays:
    """A job that stays; ``name`` is its stored name, empty if unreadable."""

    why: Why
    name: str = ""
    raw: bytes = field(default=b"", compare=False)


@dataclass(frozen=True, slots=True)
class Moves:
    """A job that belongs to another queue: its bytes, its payload, its queue and its new queue."""

    raw: bytes
    payload: JobPayload
    here: Place
    there: Place


Judged: TypeAlias = Moves | Stays


class Judge:
    """Judges jobs one by one.

    Args:
        config: rules and servers.
        from_queues: only jobs of these queues; empty for all.
        names: only jobs of these names and their aliases; empty for all.
        renames: old queue to new queue; replaces the rules.

    Attributes:
        met: queues of all judged jobs.

    Raises:
        ConfigurationError: a queue is renamed to a queue that is renamed too.
        InvalidOptions: a new name is not a queue name.
    """

    def __init__(
        self, config: Config, *, from_queues: Collection[str], names: Collection[str], renames: Mapping[str, str]
    ) -> None:
        self._config = config
        self._from_queues = frozenset(from_queues)
        self._names = frozenset(map(_own_name, names))
        self._renames = {old: check_queue_name(new, what=f"the new name of {old}") for old, new in renames.items()}
        both = self._renames.keys() & set(self._renames.values())
        if both:
            raise ConfigurationError(
                f"the queue {min(both)} is both an old and a new name: rename the queues in separate runs"
            )
        self._routes: dict[str, Place] = {}
        self.met: set[str] = set()

    def judge(self, raw: bytes, server: str, queue: str | None) -> Judged:
        """Judge a job of a queue, or of a set (None), whose jobs name their queue."""
        try:
            payload = decode(raw)
        except MalformedPayload:
            return Stays(Why.UNREADABLE, raw=raw)
        name = payload["class"]
        queue = normalize(payload).get("queue", "") if queue is None else queue
        if not queue:
            return Stays(Why.UNREADABLE, name, raw)
        self.met.add(queue)
        if not self._selects(name, queue):
            return Stays(Why.NOT_SELECTED, name, raw)
        here = Place(server, queue)
        there = self._destination(payload, here)
        if there is None:
            return Stays(Why.UNDECLARED, name, raw)
        return Stays(Why.IN_PLACE, name, raw) if there == here else Moves(raw, payload, here, there)

    def _selects(self, name: str, queue: str) -> bool:
        if self._from_queues and queue not in self._from_queues:
            return False
        if self._renames and queue not in self._renames:
            return False
        return not self._names or _own_name(name) in self._names

    def _destination(self, payload: JobPayload, here: Place) -> Place | None:
        if self._renames:
            return Place(here.server, self._renames[here.queue])
        there = self._route(payload["class"])
        return here if there is not None and _was_retried_there(payload, here.queue) else there

    def _route(self, name: str) -> Place | None:
        if name not in self._routes:
            job = known_job(name)
            if job is None:
                return None
            routed = route(job, self._config.routing.rules, self._config.jobs)
            self._routes[name] = Place(routed.server, routed.queue)
        return self._routes[name]


def _own_name(name: str) -> str:
    """Resolve an alias to the name of the job."""
    job = known_job(name)
    return name if job is None else job.name


def _was_retried_there(payload: Mapping[str, Any], queue: str) -> bool:
    """Whether the job has failed, and its option ``retry_queue`` names this queue."""
    return "retry_count" in payload and payload.get("retry_queue") == queue
