"""Move jobs of one server to another queue there, or to another server.

Another program may have encoded the JSON of a job. So the name of its queue is replaced at its position, and all other
bytes stay; only if that position is ambiguous, the whole job is encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.payload import decode, encode, encode_text
from offsider.inspector.migration.judge import Judged, Moves
from offsider.runtime.events import JobMoved, JobMoving
from offsider.storage import migration
from offsider.storage.job_sets import MoveResult
from offsider.storage.migration import Step, Transit
from offsider.storage.store_once import QUEUE, store_once

#: Maximum positions to try, since the arguments may contain the same key.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Source:
    """A place with jobs: a queue, a list of held jobs of an extension, or a sorted set.

    Attributes:
        where: ``queue``, ``held``, or the name of the sorted set.
        queue: the name of the queue.
    """

    key: str
    where: str
    queue: str | None = None

    @property
    def is_set(self) -> bool:
        return self.where not in {"queue", "held"}


class Mover:
    """Moves jobs away from one server.

    Args:
        here: any server; its configuration has the others and the event handlers.
        server: the name of the server with the jobs.
        failures: failed servers by name, to which no job moves. Servers that fail now are added.
    """

    def __init__(self, here: Installation, server: str, failures: dict[str, RedisFailure]) -> None:
        self._here = here
        self._failures = failures
        self._server = server
        self._redis = here.for_server(server).redis
        self._probed: set[str] = {server}

    def move(self, source: Source, page: Sequence[Judged]) -> list[MoveResult]:
        """Move jobs of a list, the next one first, or of a set. Jobs that stay in a list move to its tail.

        Raises:
            RedisFailure: this server is unreachable or refuses the command.
        """
        announced = [
            self._announce(job) if isinstance(job, Moves) and self._accepts(job.there.server) else None for job in page
        ]
        steps = [self._step(source, job, moving) for job, moving in zip(page, announced, strict=True)]
        moved = migration.move(self._redis, source.key, steps)
        for server in {step.server for step in steps if step.server}:
            self._deliver(Transit(server, server))
        for at, moving in enumerate(announced):
            if moving is not None:
                self._here.config.events.emit("job_moved", JobMoved(moving, moved=moved[at] is MoveResult.DONE))
            elif isinstance(page[at], Moves) and moved[at] is MoveResult.DONE:
                moved[at] = MoveResult.REFUSED
        return moved

    def _step(self, source: Source, job: Judged, moving: JobMoving | None) -> Step:
        if moving is None:
            return Step(job.raw)
        payload = rewritten(job.raw, moving.payload, moving.changes)
        server = moving.to_server if moving.to_server != self._server else ""
        if source.queue is None and not server:
            return Step(job.raw, payload)
        return Step(job.raw, payload, source.where if source.is_set else QUEUE + moving.changes["queue"], server)

    def finish(self) -> int:
        """Deliver what an earlier migration has left in transit. Returns the number of jobs.

        Raises:
            ConfigurationError: their server is not configured here.
            RedisFailure: this server is unreachable or refuses the command.
        """
        return sum(self._deliver(transit) for transit in migration.transits(self._redis))

    def _announce(self, job: Moves) -> JobMoving:
        payload = cast("Mapping[str, Any]", job.payload)
        moving = JobMoving(payload, {"queue": job.there.queue}, self._server, job.there.server)
        self._here.config.events.emit("job_moving", moving)
        return moving

    def _accepts(self, server: str) -> bool:
        """Whether a server takes jobs now; this one does."""
        if server not in self._probed | self._failures.keys():
            try:
                migration.probe(self._here.for_server(server).redis)
                self._probed.add(server)
            except RedisFailure as error:
                self._failures[server] = error
        return server == self._server or server not in self._failures

    def _deliver(self, transit: Transit) -> int:
        """Store jobs in transit on their server. Those that it refuses stay in transit."""
        destination = self._here.for_server(transit.server).redis
        count = 0
        while transit.server not in self._failures and (jobs := migration.in_transit(self._redis, transit)):
            try:
                refusals = store_once(destination, [job.transfer for job in jobs])
            except RedisFailure as error:
                self._failures[transit.server] = error
                break
            stored = [job for job, refusal in zip(jobs, refusals, strict=True) if refusal is None]
            count += migration.arrived(self._redis, transit, stored)
            for refusal in filter(None, refusals):
                self._failures.setdefault(transit.server, refusal)
        return count


def rewritten(raw: bytes, payload: Mapping[str, Any], changes: Mapping[str, str]) -> bytes:
    """Return ``raw``, the bytes of ``payload``, with the strings of ``changes``."""
    for key, text in changes.items():
        payload = {**payload, key: text}
        raw = _replaced(raw, key, text, payload)
    return raw


def _replaced(raw: bytes, key: str, text: str, wanted: Mapping[str, Any]) -> bytes:
    name = encode_text(key)
    member = re.compile(re.escape(name.encode()) + rb'(\s*:\s*)"(?:[^"\\]|\\.)*"')
    for match in islice(member.finditer(raw), _TRIES):
        new = name.encode() + match[1] + encode_text(text).encode()
        changed = raw[: match.start()] + new + raw[match.end() :]
        if decode(changed) == wanted:  # replacing a string by a string keeps the JSON valid
            return changed
    return encode(wanted)
