"""What all checks judge, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsider.inspector.process import Process, ProcessSet
from offsider.storage import owners, queues, registered
from offsider.storage.cross_section import lengths
from offsider.storage.owners import Lists
from offsider.storage.redis import Redis
from offsider.storage.vitals import Vitals
from offsider.wiring.config import Config

#: One process takes its jobs from every queue there is.
EVERY_QUEUE = "*"


@dataclass(frozen=True)
class Facts:
    """A server's state at one moment.

    Attributes:
        config: of whoever asks.
        redis: the server.
        vitals: how it does.
        processes: that are registered, ours and Ruby's.
        owners: of private lists, all ours.
        queues: how many jobs wait in each; None where no queue lies under its key.
        paused: names of queues.
        known: the jobs that each process can run, name -> digest of the signature; Ruby's do not tell.
    """

    config: Config
    redis: Redis
    vitals: Vitals
    processes: Sequence[Process]
    owners: Sequence[Lists]
    queues: Mapping[str, int | None]
    paused: frozenset[str]
    known: Mapping[str, Mapping[str, str]]

    @property
    def ours(self) -> frozenset[str]:
        """The identities that are no Ruby process's."""
        return frozenset(lists.identity for lists in self.owners)

    def serving(self, queue: str) -> list[Process]:
        """The processes that take jobs from a queue now."""
        return [
            process
            for process in self.processes
            if not process.is_quiet and (queue in process.queues or EVERY_QUEUE in process.queues)
        ]


def gather(config: Config, redis: Redis, vitals: Vitals) -> Facts:
    """Read them. Raises RedisFailure."""
    processes = list(ProcessSet(config))
    return Facts(
        config=config,
        redis=redis,
        vitals=vitals,
        processes=processes,
        owners=owners.registered(redis),
        queues=lengths(redis, queues.names(redis)),
        paused=frozenset(queues.paused(redis)),
        known=registered.known_to(redis, [process.identity for process in processes]),
    )
