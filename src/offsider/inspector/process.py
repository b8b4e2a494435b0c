"""The worker processes that are registered now, ours and Ruby's, and the signals that can be left for them.

A signal waits in Redis until the process looks: Ruby's do at each heartbeat, every 10 s, ours every 2.5 s.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import EmbeddedProcess
from offsider.storage import processes
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

if TYPE_CHECKING:
    from offsider.storage.redis import Redis

#: By then one of our processes has taken a signal, unless it is gone.
SIGNAL_SECONDS = 3
#: The same for Ruby's.
SIGNAL_SECONDS_OF_RUBY = 10


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
    _redis: Redis = field(repr=False, compare=False)

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
        self._redis = (config if config is not None else default_config()).shared_redis()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Process]:
        listed = processes.identities(self._redis)
        for identity, fields in processes.hashes(self._redis, listed).items():
            yield _process(self._redis, identity, fields)

    def find(self, identity: str) -> Process | None:
        """The process of this identity; None when it is not registered."""
        found = processes.hashes(self._redis, [identity])
        return _process(self._redis, identity, found[identity]) if identity in found else None


def _process(redis: Redis, identity: str, fields: Mapping[str, bytes]) -> Process:
    info = _info(fields.get("info", b""))
    hostname, _, rest = identity.partition(":")
    return Process(
        identity=identity,
        hostname=_text(info.get("hostname")) or hostname,
        pid=int(_number(info.get("pid", rest.partition(":")[0]))),
        started_at=_number(info.get("started_at")),
        concurrency=_concurrency(info),
        queues=_queues(info),
        busy=int(_number(fields.get("busy"))),
        is_quiet=fields.get("quiet") == b"true",
        labels=_texts(info.get("labels")),
        tag=_text(info.get("tag")),
        version=_text(info.get("version")),
        embedded=info.get("embedded") is True,
        rss_kilobytes=int(_number(fields.get("rss"))),
        round_trip_microseconds=int(_number(fields.get("rtt_us"))),
        beat_at=_number(fields.get("beat")),
        _redis=redis,
    )


# What others wrote is read as far as it can be: one odd process must not hide the others.


def _info(raw: bytes) -> dict[str, Any]:
    try:
        info: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", info) if isinstance(info, dict) else {}


def _concurrency(info: Mapping[str, Any]) -> int:
    if "concurrency" in info:
        return int(_number(info["concurrency"]))
    return sum(int(_number(capsule.get("concurrency"))) for capsule in _capsules(info))


def _queues(info: Mapping[str, Any]) -> list[str]:
    if "queues" in info:
        return _texts(info["queues"])
    weights = [capsule.get("weights") for capsule in _capsules(info)]
    return list(dict.fromkeys(str(queue) for each in weights if isinstance(each, dict) for queue in cast("Any", each)))


def _capsules(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of a Ruby process of version 8, which tells all else by them."""
    capsules = info.get("capsules")
    every = cast("dict[str, object]", capsules).values() if isinstance(capsules, dict) else ()
    return [cast("dict[str, Any]", each) for each in every if isinstance(each, dict)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0
