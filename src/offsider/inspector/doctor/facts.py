"""The facts that all checks use, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsider.config.installation import Installation
from offsider.inspector.process import Process, ProcessSet
from offsider.storage import owners, queues
from offsider.storage.owners import Lists
from offsider.storage.processes import published_jobs
from offsider.storage.redis import Redis
from offsider.storage.sample import lengths

#: A process with this queue serves all queues.
EVERY_QUEUE = "*"


@dataclass(frozen=True)
class Facts:
    """A snapshot of a server.

    Attributes:
        here: the server, with the configuration of the caller.
        redis: connection to the server.
        now: epoch seconds by the server's clock.
        processes: registered processes, ours and Ruby's.
        owners: owners of private lists, all ours.
        queues: number of jobs by queue; None if the key of the queue has another type.
        paused: names of paused queues.
        known: jobs that each process can run, as name -> digest of the signature; Ruby does not report them.
    """

    here: Installation
    redis: Redis
    now: float
    processes: Sequence[Process]
    owners: Sequence[Lists]
    queues: Mapping[str, int | None]
    paused: frozenset[str]
    known: Mapping[str, Mapping[str, str]]

    @property
    def ours(self) -> frozenset[str]:
        """The identities of our processes."""
        return frozenset(lists.identity for lists in self.owners)

    def serving(self, queue: str) -> list[Process]:
        """Return the processes that serve a queue and are not quiet."""
        return [
            process
            for process in self.processes
            if not process.is_quiet and (queue in process.queues or EVERY_QUEUE in process.queues)
        ]


def gather(here: Installation, redis: Redis, now: float) -> Facts:
    """Read the facts. Raises RedisFailure."""
    processes = list(ProcessSet(here))
    return Facts(
        here=here,
        redis=redis,
        now=now,
        processes=processes,
        owners=owners.registered(redis),
        queues=lengths(redis, queues.names(redis)),
        paused=frozenset(queues.paused(redis)),
        known=published_jobs(redis, [process.identity for process in processes]),
    )
