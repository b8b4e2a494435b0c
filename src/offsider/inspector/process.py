"""The registered worker processes, ours and Ruby's, and signals to them.

A signal is stored in Redis until the process reads it: ours within two seconds, Ruby's at a heartbeat, every 10 s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.errors import CannotCancel, EmbeddedProcess, RedisUnavailable
from offsider.storage import iteration, processes
from offsider.storage.hashes import json_object, number_field, text_field

if TYPE_CHECKING:
    from offsider.storage.redis import Redis

#: Within this time one of our processes handles a signal, unless it is dead.
SIGNAL_SECONDS = 3
#: The same for a Ruby process.
SIGNAL_SECONDS_OF_RUBY = 10
#: First major version of Sidekiq that publishes its version, as our workers do. Ruby processes store fewer details.
_FIRST_WITH_VERSION = 7


@dataclass(frozen=True, slots=True)
class CapsuleShown:
    """A capsule of a process.

    Attributes:
        concurrency: number of jobs that it can run now.
        mode: ``"strict"``, ``"weighted"`` or ``"random"``.
        weights: the weight of each queue.
    """

    concurrency: int
    mode: str
    weights: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Process:
    """A worker process, as of its last heartbeat.

    Attributes:
        identity: ``host:pid:nonce``.
        hostname, pid: host and process ID; 0 if the pid is unknown.
        started_at: start time in epoch seconds, 0 if unknown.
        concurrency: number of jobs that it can run now, in all capsules: one per thread, and the ``async def`` jobs
            that run beside the threads (`worker.async_concurrency`).
        queues: names of the queues that it serves, or served before it became quiet; `serving` is empty then.
        busy: number of running jobs.
        is_quiet: whether it has stopped claiming jobs; it may be stopping.
        labels, tag: configured labels and tag.
        version: version of offsider or Sidekiq; empty for Sidekiq before 7.
        embedded: whether the worker is part of another program and ignores signals.
        rss_kilobytes: resident memory.
        round_trip_microseconds: round trip to Redis.
        beat_at: time of its last heartbeat in epoch seconds, by its own clock.
        capsules: capsules by name; empty for processes that do not report them.
        weights: weight by queue, all capsules together; 0 for strict order.
        leader: whether it is the elected leader, of ours or of Sidekiq Enterprise.
        routing: digest of its routing rules; empty without rules and for Ruby processes.
        shard: shard that it serves; empty without one.
        app_version: version of the application, from `client.app_version`; empty if unset, and for Ruby processes.
    """

    identity: str
    hostname: str
    pid: int
    started_at: float
    concurrency: int
    queues: Sequence[str]
    busy: int
    is_quiet: bool
    labels: Sequence[str]
    tag: str
    version: str
    embedded: bool
    rss_kilobytes: int
    round_trip_microseconds: int
    beat_at: float
    capsules: Mapping[str, CapsuleShown]
    weights: Mapping[str, int]
    leader: bool
    routing: str
    shard: str
    app_version: str
    _redis: Redis = field(repr=False, compare=False)

    @property
    def serving(self) -> Sequence[str]:
        """The queues from which it claims jobs: none if it is quiet."""
        return () if self.is_quiet else self.queues

    @property
    def is_ruby(self) -> bool:
        """Whether it is a process of Sidekiq. With wire version 6 ours cannot be distinguished from these."""
        # Sidekiq before 7 publishes no version. Our workers publish theirs, which is lower.
        major = self.version.partition(".")[0]
        return not self.version or (major.isascii() and major.isdigit() and int(major[:9]) >= _FIRST_WITH_VERSION)

    @property
    def stopping(self) -> bool:
        """Whether it may be stopping. As in Sidekiq, a stop cannot be distinguished from a quiet process."""
        return self.is_quiet

    def quiet(self) -> None:
        """Stop it from claiming jobs. Raises EmbeddedProcess, as `stop` and `dump` do."""
        self.signal("TSTP")

    def stop(self) -> None:
        """Stop it; running jobs have until its timeout to finish."""
        self.signal("TERM")

    def dump(self) -> None:
        """Make it log the stacks of all threads."""
        self.signal("TTIN")

    def cancel(self, jid: str) -> None:
        """Cancel the run of a job in this process, which does so within two seconds: see `Work.cancel`.

        A Ruby process ends an iteration within five seconds, before its next element.

        Raises:
            CannotCancel: it is a Ruby process, and the job does not iterate.
        """
        if self.identity in processes.rubys(self._redis):
            if iteration.read(self._redis, jid) is None:
                raise CannotCancel(
                    f"{self.identity} is a Ruby process, which cannot cancel a run: stop it instead; only a job that "
                    "iterates can be canceled there, from its fifth second on"
                )
            iteration.cancel(self._redis, jid)
            return
        processes.send_signal(self._redis, self.identity, processes.CANCEL + jid)

    def signal(self, name: str) -> None:
        """Send ``TSTP``, ``TERM`` or ``TTIN``, which it reads within two seconds, a Ruby process within ten.

        Raises:
            EmbeddedProcess: the worker is part of another program.
        """
        if self.embedded:
            raise EmbeddedProcess(
                f"{self.identity} is embedded in another program and accepts no signals: quiet or stop it in that "
                "program"
            )
        processes.send_signal(self._redis, self.identity, name)


class ProcessSet:
    """The processes with a heartbeat in the last minute. Iterating yields `Process`, sorted by identity.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)
        self._redis = self._server.redis

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Process]:
        listed = processes.identities(self._redis)
        leaders = self._leaders()
        for identity, fields in processes.hashes(self._redis, listed).items():
            yield _process(self._redis, identity, fields, leaders)

    def find(self, identity: str) -> Process | None:
        """Return the process with this identity; None if it is not registered."""
        found = processes.hashes(self._redis, [identity])
        return _process(self._redis, identity, found[identity], self._leaders()) if identity in found else None

    @property
    def leader(self) -> str:
        """The identity of the leader, on any server; empty if there is none."""
        return processes.leader(self._server.for_server(MAIN).redis)

    def _leaders(self) -> set[str]:
        """Return the leaders: ours on ``main``, and one of Sidekiq Enterprise on this server."""
        leaders = {processes.leader(self._redis)}
        if self._server.name != MAIN:
            with suppress(RedisUnavailable):
                leaders.add(self.leader)
        return leaders

    @property
    def total_concurrency(self) -> int:
        """Total number of jobs that the processes can run at the same time."""
        return sum(process.concurrency for process in self)

    @property
    def total_rss_kilobytes(self) -> int:
        """Total resident memory."""
        return sum(process.rss_kilobytes for process in self)

    def cleanup(self) -> int:
        """Remove processes without a heartbeat for a minute from the registry, and return their number.

        Does nothing, and returns 0, if any process did this within the last minute.
        """
        return processes.prune(self._redis)


def _process(redis: Redis, identity: str, fields: Mapping[str, bytes], leaders: Collection[str]) -> Process:
    info = json_object(fields.get("info", b""))
    hostname, _, rest = identity.partition(":")
    capsules = _capsules(info)
    threads = int(number_field(info.get("concurrency"))) or sum(each.concurrency for each in capsules.values())
    return Process(
        identity=identity,
        hostname=text_field(info.get("hostname")) or hostname,
        pid=int(number_field(info.get("pid", rest.partition(":")[0]))),
        started_at=number_field(info.get("started_at")),
        concurrency=int(number_field(fields.get("concurrency"))) or threads,
        queues=_texts(info.get("queues")) or list(_all_weights(capsules)),
        busy=int(number_field(fields.get("busy"))),
        is_quiet=fields.get("quiet") == b"true",
        labels=_texts(info.get("labels")),
        tag=text_field(info.get("tag")),
        version=text_field(info.get("version")),
        embedded=info.get("embedded") is True,
        rss_kilobytes=int(number_field(fields.get("rss"))),
        round_trip_microseconds=int(number_field(fields.get("rtt_us"))),
        beat_at=number_field(fields.get("beat")),
        capsules=capsules,
        weights=_all_weights(capsules) or _weights(info.get("weights")),
        leader=identity in leaders,
        routing=text_field(info.get("routing")),
        shard=text_field(info.get("shard")),
        app_version=text_field(info.get("app_version")),
        _redis=redis,
    )


def version_of(info: bytes) -> str | None:
    """Return the version that a process reports; empty before Sidekiq 7, None if it is unreadable."""
    found = json_object(info)
    return text_field(found.get("version")) if found else None


# Malformed fields are read as empty: one malformed process must not hide the others.


def _capsules(info: Mapping[str, Any]) -> dict[str, CapsuleShown]:
    """Return the capsules of a version 8 process, which reports queues and weights only in them."""
    capsules = info.get("capsules")
    items = cast("dict[str, object]", capsules).items() if isinstance(capsules, dict) else ()
    return {name: _capsule(cast("dict[str, object]", each)) for name, each in items if isinstance(each, dict)}


def _capsule(info: Mapping[str, object]) -> CapsuleShown:
    return CapsuleShown(
        int(number_field(info.get("concurrency"))), text_field(info.get("mode")), _weights(info.get("weights"))
    )


def _all_weights(capsules: Mapping[str, CapsuleShown]) -> dict[str, int]:
    return {queue: weight for capsule in capsules.values() for queue, weight in capsule.weights.items()}


def _weights(value: object) -> dict[str, int]:
    """Parse an object, or a list of objects, one per capsule, as version 7 writes it."""
    parts = cast("list[object]", value) if isinstance(value, list) else [value]
    objects = [cast("dict[str, object]", part) for part in parts if isinstance(part, dict)]
    return {queue: int(number_field(weight)) for each in objects for queue, weight in each.items()}


def _texts(value: object) -> list[str]:
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []
