"""Where a stored job belongs, by the rules of today."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from offsider.core.errors import ConfigurationError, MalformedPayload
from offsider.core.options import check_queue_name
from offsider.core.payload import decode
from offsider.wiring.known_jobs import known_job
from offsider.wiring.routing import route

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.wiring.config import Config


class Why(Enum):
    """Why a job is left alone."""

    IN_PLACE = auto()
    UNDECLARED = auto()
    UNREADABLE = auto()
    NOT_MEANT = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A queue of a server."""

    server: str
    queue: str


@dataclass(frozen=True, slots=True)
class Stays:
    """A job that is left alone; ``name`` is its stored name, if it can be read."""

    why: Why
    name: str = ""


@dataclass(frozen=True, slots=True)
class Moves:
    """A job that belongs elsewhere: its bytes, what they say, where it is and where it goes."""

    raw: bytes
    payload: JobPayload
    here: Place
    there: Place


Judged: TypeAlias = Moves | Stays


class Judge:
    """Judges jobs one by one.

    Args:
        config: its rules and the queues that jobs declare.
        from_queues: only jobs of these queues are meant; none: of all.
        names: only jobs of these names are meant, their aliases included; none: of all.
        renames: instead of the rules: all jobs of a queue go to the one that stands for it here.

    Attributes:
        met: the queues of the jobs that were judged.

    Raises:
        ConfigurationError: a queue is renamed to one that is renamed itself.
        InvalidOptions: what stands for a queue is no name of one.
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
                f"the queue {min(both)} is renamed, and another one to its name: rename them one after another"
            )
        self._routes: dict[str, Place] = {}
        self.met: set[str] = set()

    def judge(self, raw: bytes, server: str, queue: str | None) -> Judged:
        """A job of a queue, or of a set of jobs (None), which are meant for the queue that they name."""
        try:
            payload = decode(raw)
        except MalformedPayload:
            return Stays(Why.UNREADABLE)
        name = payload["class"]
        queue = payload.get("queue", "") if queue is None else queue
        if not queue:
            return Stays(Why.UNREADABLE, name)
        self.met.add(queue)
        if not self._means(name, queue):
            return Stays(Why.NOT_MEANT, name)
        here = Place(server, queue)
        there = self._destination(payload, here)
        if there is None:
            return Stays(Why.UNDECLARED, name)
        return Stays(Why.IN_PLACE, name) if there == here else Moves(raw, payload, here, there)

    def _means(self, name: str, queue: str) -> bool:
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
    """The name of a job that may be given by an alias."""
    job = known_job(name)
    return name if job is None else job.name


def _was_retried_there(payload: Mapping[str, Any], queue: str) -> bool:
    """Whether the job has failed, and its option ``retry_queue`` has brought it here."""
    return "retry_count" in payload and payload.get("retry_queue") == queue
