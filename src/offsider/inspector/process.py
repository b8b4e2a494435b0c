"""The worker processes that are registered now, ours and Ruby's, and the signals that can be left for them.

A signal waits in Redis until the process looks: Ruby's do at each heartbeat, every 10 s, ours every 2.5 s.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import EmbeddedProcess, RedisUnavailable
from offsider.storage import processes
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.routing import MAIN

if TYPE_CHECKING:
    from offsider.storage.redis import Redis

#: By then one of our processes has taken a signal, unless it is gone.
SIGNAL_SECONDS = 3
#: The same for Ruby's.
SIGNAL_SECONDS_OF_RUBY = 10
#: What no process can mean: neither a time, nor kilobytes, nor jobs.
_BIGGEST = 1e15


@dataclass(frozen=True, slots=True)
class CapsuleShown:
    """A capsule of a process: ``mode`` is ``"strict"``, ``"weighted"`` or ``"random"``, ``weights`` has its queues."""

    concurrency: int
    mode: str
    weights: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Process:
    """A worker process as it showed itself at its last heartbeat.

    Attributes:
        identity: ``host:pid:nonce``.
        hostname, pid: of the process; 0 when the pid is unknown.
        started_at: epoch seconds, 0 when unknown.
        concurrency: how many jobs it runs at a time, all capsules together.
        queues: names of the queues that it serves.
        busy: how many jobs it runs now.
        is_quiet: it takes no further jobs, and may be on its way out.
        labels, tag: what it was given to be known by.
        version: of the program; empty for Sidekiq before 7.
        embedded: the worker is part of another program and takes no signals.
        rss_kilobytes: the memory it holds.
        round_trip_microseconds: to Redis and back.
        beat_at: epoch seconds of its last heartbeat, by its own clock.
        capsules: name -> its queues and how many jobs it runs at a time; empty for processes that do not tell.
        weights: queue -> its weight, all capsules together; 0 where the order is strict.
        leader: it leads the others: one of ours that was elected, or one of Sidekiq Enterprise.
        routing: the digest of its routing rules; empty for no rules and for processes of Ruby.
        shard: the one that it serves; empty when it was started without.
        app_version: of the application, as `client.app_version` told it; empty when nobody did, and of Ruby's.
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
    def stopping(self) -> bool:
        """Whether it may be on its way out. As in Sidekiq, it does not tell a stop from being quiet."""
        return self.is_quiet

    def quiet(self) -> None:
        """Have it take no further jobs. Raises EmbeddedProcess, as `stop` and `dump` do."""
        self.signal("TSTP")

    def stop(self) -> None:
        """Have it stop, with its usual time for running jobs."""
        self.signal("TERM")

    def dump(self) -> None:
        """Have it write to its log what every thread is doing."""
        self.signal("TTIN")

    def signal(self, name: str) -> None:
        """Leave ``TSTP``, ``TERM`` or ``TTIN`` for its next heartbeat.

        Raises:
            EmbeddedProcess: it is part of another program.
        """
        if self.embedded:
            raise EmbeddedProcess(f"{self.identity} is part of another program: stop the worker there")
        processes.send_signal(self._redis, self.identity, name)


class ProcessSet:
    """The processes that have shown themselves within the last minute. Iterating gives `Process`, by identity.

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Process]:
        listed = processes.identities(self._redis)
        leaders = self._leaders()
        for identity, fields in processes.hashes(self._redis, listed).items():
            yield _process(self._redis, identity, fields, leaders)

    def find(self, identity: str) -> Process | None:
        """The process of this identity; None when it is not registered."""
        found = processes.hashes(self._redis, [identity])
        return _process(self._redis, identity, found[identity], self._leaders()) if identity in found else None

    @property
    def leader(self) -> str:
        """The identity of the process that leads the others, wherever it works; empty when none does."""
        return processes.leader(self._config.redis_of(MAIN))

    def _leaders(self) -> set[str]:
        """Who leads: ours on ``main``, and beside it one of Sidekiq Enterprise on this server."""
        leaders = {processes.leader(self._redis)}
        if self._config.server != MAIN:
            with suppress(RedisUnavailable):
                leaders.add(self.leader)
        return leaders

    @property
    def total_concurrency(self) -> int:
        """How many jobs they can run at a time, all together."""
        return sum(process.concurrency for process in self)

    @property
    def total_rss_kilobytes(self) -> int:
        """The memory they hold, all together."""
        return sum(process.rss_kilobytes for process in self)

    def cleanup(self) -> int:
        """Strike those off the registry that have been silent for a minute, and answer how many.

        Does nothing, and answers 0, when anybody did so within the last minute.
        """
        return processes.prune(self._redis)


def _process(redis: Redis, identity: str, fields: Mapping[str, bytes], leaders: Collection[str]) -> Process:
    info = _info(fields.get("info", b""))
    hostname, _, rest = identity.partition(":")
    capsules = _capsules(info)
    return Process(
        identity=identity,
        hostname=_text(info.get("hostname")) or hostname,
        pid=int(_number(info.get("pid", rest.partition(":")[0]))),
        started_at=_number(info.get("started_at")),
        concurrency=int(_number(info.get("concurrency"))) or sum(each.concurrency for each in capsules.values()),
        queues=_texts(info.get("queues")) or list(_all_weights(capsules)),
        busy=int(_number(fields.get("busy"))),
        is_quiet=fields.get("quiet") == b"true",
        labels=_texts(info.get("labels")),
        tag=_text(info.get("tag")),
        version=_text(info.get("version")),
        embedded=info.get("embedded") is True,
        rss_kilobytes=int(_number(fields.get("rss"))),
        round_trip_microseconds=int(_number(fields.get("rtt_us"))),
        beat_at=_number(fields.get("beat")),
        capsules=capsules,
        weights=_all_weights(capsules) or _weights(info.get("weights")),
        leader=identity in leaders,
        routing=_text(info.get("routing")),
        shard=_text(info.get("shard")),
        app_version=_text(info.get("app_version")),
        _redis=redis,
    )


# What others wrote is read as far as it can be: one odd process must not hide the others.


def _info(raw: bytes) -> dict[str, Any]:
    try:
        info: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", info) if isinstance(info, dict) else {}


def _capsules(info: Mapping[str, Any]) -> dict[str, CapsuleShown]:
    """Those of a process of version 8, which tells all else by them."""
    capsules = info.get("capsules")
    told = cast("dict[str, object]", capsules).items() if isinstance(capsules, dict) else ()
    return {name: _capsule(cast("dict[str, object]", each)) for name, each in told if isinstance(each, dict)}


def _capsule(told: Mapping[str, object]) -> CapsuleShown:
    return CapsuleShown(int(_number(told.get("concurrency"))), _text(told.get("mode")), _weights(told.get("weights")))


def _all_weights(capsules: Mapping[str, CapsuleShown]) -> dict[str, int]:
    return {queue: weight for capsule in capsules.values() for queue, weight in capsule.weights.items()}


def _weights(told: object) -> dict[str, int]:
    """An object, or a list of them, one for each capsule, as version 7 writes it."""
    parts = cast("list[object]", told) if isinstance(told, list) else [told]
    objects = [cast("dict[str, object]", part) for part in parts if isinstance(part, dict)]
    return {queue: int(_number(weight)) for each in objects for queue, weight in each.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if abs(number) <= _BIGGEST else 0.0
