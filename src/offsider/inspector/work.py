"""The jobs that run now, as the processes told at their last heartbeats: they lag by some seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.payload import encode_text
from offsider.inspector.job_record import JobRecord
from offsider.storage import processes
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

#: No clock shows so many seconds.
_NO_TIME = 1e12


@dataclass(frozen=True, slots=True)
class Work:
    """A job that runs.

    Attributes:
        process: identity of the process that runs it.
        tid: the thread there.
        queue: where the job came from.
        run_at: epoch seconds of its start; 0 when unknown.
        elapsed_seconds: since then.
        record: the job.
    """

    process: str
    tid: str
    queue: str
    run_at: float
    elapsed_seconds: float
    record: JobRecord

    @property
    def jid(self) -> str:
        return self.record.jid


class WorkSet:
    """Iterating gives `Work`, by process, the longest running first.

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[Work]:
        now = self._config.clock.now()
        works = [_work(identity, tid, raw, now) for identity, tid, raw in self._read()]
        yield from sorted(works, key=lambda work: (work.process, work.run_at, work.tid))

    def find_work(self, jid: str) -> Work | None:
        """The run of the job with this id; None when it does not run, or has begun since the last heartbeat."""
        return next((work for work in self if work.jid == jid), None)

    def _read(self) -> list[tuple[str, str, bytes]]:
        return processes.work(self._redis, processes.identities(self._redis))


def _work(identity: str, tid: str, raw: bytes, now: float) -> Work:
    told = _told(raw)
    queue = told.get("queue")
    run_at = _seconds(told.get("run_at"))
    return Work(
        process=identity,
        tid=tid,
        queue=queue if isinstance(queue, str) else "",
        run_at=run_at,
        elapsed_seconds=max(0.0, now - run_at) if run_at else 0.0,
        record=JobRecord(_payload(told.get("payload")), queue if isinstance(queue, str) else ""),
    )


def _told(raw: bytes) -> dict[str, Any]:
    try:
        told: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


def _payload(told: object) -> bytes:
    """A string since Sidekiq 5, an object before."""
    try:
        text = told if isinstance(told, str) else encode_text(told)
    except (ValueError, RecursionError):  # for example NaN
        return b""
    return text.encode("utf-8", "replace")


def _seconds(told: object) -> float:
    """A whole number of seconds, unlike the stamps of a payload."""
    return float(told) if isinstance(told, int | float) and 0 <= told < _NO_TIME else 0.0
