"""How fast jobs come into each queue and leave it, when it will be empty, and the load of the server.

Read from the samples that one worker takes every ten seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import samples
from offsider.storage.samples import QueueMinute, ServerMinute, ServerSample
from offsider.storage.series import MINUTE

__all__ = ["Flow", "QueueFlow", "QueueMinute", "ServerLoad", "ServerMinute"]

#: Rates are averages over this number of minutes, the current one included.
RATE_MINUTES = 5


@dataclass(frozen=True, slots=True)
class QueueFlow:
    """Jobs that come into a queue and leave it.

    Attributes:
        name: name of the queue.
        size: number of jobs at the last sample.
        latency_seconds: age of its next job at the last sample; 0 if unknown.
        in_per_second: jobs that came in, of the last five minutes: pushed, promoted, retried and returned ones.
        out_per_second: jobs that workers took, of the last five minutes. Claims of Ruby's workers are in neither rate.
        minutes: its last minutes, the earliest first.
    """

    name: str
    size: int
    latency_seconds: float
    in_per_second: float = 0.0
    out_per_second: float = 0.0
    minutes: Sequence[QueueMinute] = field(default=(), repr=False)

    @property
    def eta_seconds(self) -> float | None:
        """When it will be empty at these rates, from the last sample; None for never."""
        if self.size == 0:
            return 0.0
        faster = self.out_per_second - self.in_per_second
        return self.size / faster if faster > 0 else None


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The load of a server. 0 for what the user of this server may not read.

    Attributes:
        commands_per_second, cpu_share: of the last five minutes; a share of 1 is one core.
        slow_commands: entries that the slow log has got in these minutes.
        memory_bytes: used memory at the last sample.
        blocked_clients: connections in a blocking command at the last sample, such as those of idle workers.
        round_trip_seconds: the worst round trip that a process has reported in these minutes.
        minutes: its last minutes, the earliest first.
    """

    commands_per_second: float = 0.0
    cpu_share: float = 0.0
    slow_commands: int = 0
    memory_bytes: int = 0
    blocked_clients: int = 0
    round_trip_seconds: float = 0.0
    minutes: Sequence[ServerMinute] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """The flow of all queues, and the load of the server.

    Attributes:
        at: time of the last sample in epoch seconds; None if no worker has taken one within a minute.
        queues: the queues by name. Of more than 500 queues, those with the most jobs.
        server: the load of the server.
    """

    at: float | None = None
    queues: Mapping[str, QueueFlow] = field(default_factory=dict[str, QueueFlow])
    server: ServerLoad = ServerLoad()

    @classmethod
    def read(cls, config: Config | Installation | None = None, *, minutes: int = RATE_MINUTES) -> Flow:
        """Read the last sample and the minutes before it.

        Args:
            minutes: length of the trends, up to 480; rates are always of five minutes.
        """
        redis = Installation.of(config).redis
        last = samples.last(redis)
        if last is None:
            return cls()
        count = max(minutes, RATE_MINUTES)
        of_queues, of_server = samples.minutes(redis, last.minute - (count - 1) * MINUTE.seconds, last.minute)
        seconds = sum(each.sampled_seconds for each in of_server[-RATE_MINUTES:])
        queues = {
            name: QueueFlow(
                name,
                one.size,
                one.latency_seconds,
                _rate(sum(each.arrived for each in of_queues.get(name, ())[-RATE_MINUTES:]), seconds),
                _rate(sum(each.claimed for each in of_queues.get(name, ())[-RATE_MINUTES:]), seconds),
                of_queues.get(name, ()),
            )
            for name, one in sorted(last.queues.items())
        }
        return cls(last.at, queues, _server_load(of_server, last.server, seconds))


def _server_load(minutes: Sequence[ServerMinute], last: ServerSample, seconds: float) -> ServerLoad:
    recent = minutes[-RATE_MINUTES:]
    return ServerLoad(
        commands_per_second=_rate(sum(each.commands for each in recent), seconds),
        cpu_share=_rate(sum(each.cpu_seconds for each in recent), seconds),
        slow_commands=sum(each.slow_commands for each in recent),
        memory_bytes=last.memory_bytes,
        blocked_clients=last.blocked_clients,
        round_trip_seconds=max((each.round_trip_seconds for each in recent), default=0.0),
        minutes=minutes,
    )


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds else 0.0
