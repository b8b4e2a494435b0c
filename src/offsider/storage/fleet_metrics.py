"""Sums of all workers that only grow, one hash for each combination of labels, for whoever scrapes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from offsider.core.series import Series
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: A class that has not run for so long is told of no more.
KEEP_SECONDS = int(timedelta(days=30).total_seconds())
#: More combinations of labels than any monitoring system is glad about.
MOST = 5_000


def commands_of(keys: Keys, series: Iterable[Series], now: float) -> list[Command]:
    """The commands that add to the sums.

    Args:
        now: epoch seconds; series that were not added to for 30 days are dropped by it.
    """
    commands: list[Command] = []
    for each in series:
        labels = json.dumps(dict(sorted(each.labels.items())), separators=(",", ":"))
        key = keys.series(labels)
        commands.append(("ZADD", keys.every_series, now, labels))
        commands += _raised(key, each)
        commands.append(("EXPIRE", key, KEEP_SECONDS))
    if commands:
        commands.append(("ZREMRANGEBYSCORE", keys.every_series, "-inf", now - KEEP_SECONDS))
        commands.append(("ZREMRANGEBYRANK", keys.every_series, 0, -MOST - 1))
    return commands


def read(redis: Redis, class_name: str | None = None) -> list[Series]:
    """Every series, or those of one class."""
    every: list[bytes] = redis.call("ZRANGE", redis.keys.every_series, 0, -1)
    known = [(written.decode(), json.loads(written)) for written in every]
    wanted = [each for each in known if class_name in (None, each[1].get("class"))]
    replies = redis.pipeline([("HGETALL", redis.keys.series(written)) for written, _ in wanted]) if wanted else []
    return [
        _series(labels, dict(zip(reply[::2], reply[1::2], strict=True)))
        for (_, labels), reply in zip(wanted, replies, strict=True)
        if reply
    ]


def _raised(key: str, series: Series) -> Iterator[Command]:
    counts = (
        ("processed", series.processed),
        ("failed", series.failed),
        ("retried", series.retried),
        ("satisfied", series.satisfied),
    )
    for field, count in counts:
        if count:
            yield ("HINCRBY", key, field, count)
    sums = (("run", series.run_seconds), ("cpu", series.cpu_seconds), ("queue", series.queue_seconds))
    for field, seconds in sums:
        if seconds:
            yield ("HINCRBYFLOAT", key, f"{field}_seconds", repr(seconds))
    for field, buckets in (("run", series.run_buckets), ("queue", series.queue_buckets)):
        for place, count in enumerate(buckets):
            if count:
                yield ("HINCRBY", key, f"{field}_{place}", count)


def _series(labels: dict[str, str], fields: dict[bytes, Any]) -> Series:
    series = Series(labels)
    series.processed, series.failed, series.retried, series.satisfied = (
        int(fields.get(name, 0)) for name in (b"processed", b"failed", b"retried", b"satisfied")
    )
    series.run_seconds, series.cpu_seconds, series.queue_seconds = (
        float(fields.get(name, 0.0)) for name in (b"run_seconds", b"cpu_seconds", b"queue_seconds")
    )
    for name, buckets in (("run", series.run_buckets), ("queue", series.queue_buckets)):
        for place in range(len(buckets)):
            buckets[place] = int(fields.get(f"{name}_{place}".encode(), 0))
    return series
