"""How the shards fare: who serves them, on which server, and what waits for them. One look at every server.

A shard's queues are those that it names. Of one that selects jobs they are those where its jobs are sent to, as far as
these are declared here, and those that its workers tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from offsider.core.errors import RedisFailure
from offsider.inspector.everywhere import ask_all
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.stats import QueueSummary, Stats
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.queue_spec import EVERY
from offsider.wiring.shards import routes_of


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as it fares now.

    Attributes:
        name: of the shard; empty for workers that were started without one, and for queues of no shard in which jobs
            wait that nobody takes.
        server: the name of its server.
        url: of that server, without its password.
        queues: the names of its queues; ``*`` among them means all of its server.
        processes: how many serve it, and
        quiet: how many of these take no further jobs.
        concurrency: how many threads all of them have.
        busy: jobs that run in them now.
        waiting: jobs in its queues.
        latency_seconds: how long the oldest of these has waited; 0 when none waits.
        error: why nothing is known, because the server does not answer; else empty.
    """

    name: str
    server: str
    url: str
    queues: Sequence[str]
    processes: int = 0
    quiet: int = 0
    concurrency: int = 0
    busy: int = 0
    waiting: int = 0
    latency_seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ServerLook:
    """What is to be known of one server."""

    queues: Sequence[QueueSummary]
    processes: Sequence[Process]

    @classmethod
    def read(cls, config: Config) -> ServerLook:
        """Look now. Raises RedisFailure."""
        return cls(Stats.read(config).queue_summaries, list(ProcessSet(config)))

    @property
    def unserved(self) -> list[QueueSummary]:
        """The queues in which jobs wait that no process takes from."""
        served = {queue for process in self.processes for queue in process.queues}
        return [] if EVERY in served else [each for each in self.queues if each.size and each.name not in served]


#: What was seen of a server, or why nothing was.
Seen: TypeAlias = ServerLook | str


class Shards:
    """Every shard of the configuration, then, server by server, those that only workers tell of, the workers without
    one, and the queues in which jobs wait that no shard has. Iterating gives `Shard`, as of now.

    Args:
        config: which configuration; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()

    def __iter__(self) -> Iterator[Shard]:
        answers = ask_all(self._config, ServerLook.read).items()
        seen = {server: str(look) if isinstance(look, RedisFailure) else look for server, look in answers}
        yield from shards_of(self._config, seen)

    def find(self, name: str) -> Shard | None:
        """The shard of this name; None when there is none."""
        return next((shard for shard in self if shard.name == name), None) if name else None


def shards_of(config: Config, seen: Mapping[str, Seen]) -> Iterator[Shard]:
    """The same of what was read already, by the names of the servers."""
    routes = routes_of(config)
    for name, section in config.shards.items():
        queues = routes.queues_of(section)
        yield _shard(config, name, section.server, queues, seen[section.server])
    for server, look in seen.items():
        if isinstance(look, ServerLook):
            yield from _others(config, server, look)


def _others(config: Config, server: str, look: ServerLook) -> Iterator[Shard]:
    """What this configuration does not have: a shard that was renamed is served under its old name for a while."""
    configured = {name: section for name, section in config.shards.items() if section.server == server}
    routes = routes_of(config)
    of_shards = {queue for section in configured.values() for queue in routes.queues_of(section)}
    for name in sorted({process.shard for process in look.processes} - configured.keys()):
        yield _shard(config, name, server, (), look)
    left = [] if EVERY in of_shards else [queue for queue in look.unserved if queue.name not in of_shards]
    if left:
        yield _shard(config, "", server, [queue.name for queue in left], ServerLook(left, ()))


def _shard(config: Config, name: str, server: str, queues: Sequence[str], look: Seen) -> Shard:
    url = config.servers[server].redacted_url
    if isinstance(look, str):
        return Shard(name, server, url, queues, error=look)
    processes = [process for process in look.processes if process.shard == name]
    # What workers tell stands for what was declared elsewhere only, or is served in spite of the configuration.
    told = (queue for process in processes for queue in process.queues)
    queues = tuple(dict.fromkeys(queues if EVERY in queues else (*queues, *told)))
    served = [queue for queue in look.queues if queue.name in queues or EVERY in queues]
    return Shard(
        name=name,
        server=server,
        url=url,
        queues=queues,
        processes=len(processes),
        quiet=sum(process.is_quiet for process in processes),
        concurrency=sum(process.concurrency for process in processes),
        busy=sum(process.busy for process in processes),
        waiting=sum(queue.size for queue in served),
        latency_seconds=max((queue.latency_seconds for queue in served if queue.size), default=0.0),
    )
