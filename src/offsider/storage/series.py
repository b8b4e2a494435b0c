"""The series store: counts by metric, labels and step, for web pages, SLOs and the Prometheus text.

1. A metric has a fixed number of cells, each an integer of 32 or 64 bits that stops at its maximum. A counter has one
   cell. A histogram has one for each bucket and one for its sum. A gauge has two: the sum of its samples and their
   number.
2. A metric has one or more steps: minutes for 8 hours, ten minutes for 14 days, and totals, which only grow, until 30
   days (or 8 hours) after the last addition.
3. One string stores the cells of an hour (of minutes) or a day (of ten minutes). A label set takes little more than 4
   or 8 bytes per cell and step, and three commands per flush and step.
4. A metric has at most `Metric.max_label_sets` label sets: `trim` deletes the least recently updated.

A new page adds a `Metric`, never a store.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command

Labels: TypeAlias = Mapping[str, str]

_HOUR_SECONDS = 3600
_DAY_SECONDS = 24 * _HOUR_SECONDS


class Resolution(NamedTuple):
    """The resolution of a series.

    Attributes:
        name: name in keys.
        seconds: length of one step.
        per_key: number of steps per key.
        keep_seconds: expiry of a key, from the last addition.
    """

    name: str
    seconds: float
    per_key: int
    keep_seconds: int

    def chunk(self, number: int) -> str:
        """The name of a chunk (the steps that share a key) in keys."""
        return f"{self.name}:{number}"

    def chunks(self, since: float, until: float) -> range:
        """The numbers of the chunks from ``since`` to ``until`` (epoch seconds), both included."""
        first, last = (int(at // self.seconds) // self.per_key for at in (since, until))
        return range(first, last + 1)


MINUTE = Resolution("1m", 60, 60, 8 * _HOUR_SECONDS)
TEN_MINUTES = Resolution("10m", 600, 144, 14 * _DAY_SECONDS)
TOTAL = Resolution("total", math.inf, 1, 30 * _DAY_SECONDS)
#: For label sets that each release adds: those of former releases disappear soon.
RECENT_TOTAL = Resolution("recent", math.inf, 1, 8 * _HOUR_SECONDS)


class Metric(NamedTuple):
    """A metric of the store.

    Attributes:
        name: name in keys.
        cells: number of cells.
        steps: steps in which it is stored.
        bits: bits per cell: 32 for counts of runs, 64 for sums of times.
        max_label_sets: its maximum number of label sets.
    """

    name: str
    cells: int
    steps: tuple[Resolution, ...]
    bits: Literal[32, 64] = 64
    max_label_sets: int = 5_000

    @property
    def keep_seconds(self) -> int:
        """How long a label set without additions is kept: as long as its last step."""
        return max(step.keep_seconds for step in self.steps)


class Buckets(NamedTuple):
    """The cells of one label set over consecutive steps, earliest first.

    Attributes:
        labels: labels of the series.
        width: number of cells per step.
        cells: cells of the first step, then of the next; a step without additions has zeros.
    """

    labels: Labels
    width: int
    cells: Sequence[int]

    @property
    def steps(self) -> list[Sequence[int]]:
        """The cells of each step."""
        return [self.cells[at : at + self.width] for at in range(0, len(self.cells), self.width)]

    def sums(self, last: int | None = None) -> list[int]:
        """The sum of each cell over the last steps, or over all."""
        wanted = self.cells if last is None else self.cells[-last * self.width :]
        return [sum(wanted[cell :: self.width]) for cell in range(self.width)]


def commands_of(keys: Keys, metric: Metric, added: Iterable[tuple[Labels, Sequence[int]]], now: float) -> list[Command]:
    """Return the commands that add cells to label sets at ``now`` (epoch seconds). Zeros are not written."""
    commands: list[Command] = []
    index, kind = keys.every_series(metric.name), "u32" if metric.bits == 32 else "i64"
    for labels, cells in added:
        if not any(cells):
            continue
        written = json.dumps(dict(sorted(labels.items())), separators=(",", ":"))
        commands.append(("ZADD", index, "GT", now, written))
        for step in metric.steps:
            number = int(now // step.seconds)
            key = keys.series(metric.name, step.chunk(number // step.per_key), written)
            first = number % step.per_key * metric.cells
            raised: list[Argument] = []
            for place, count in enumerate(cells, first):
                if count:
                    raised += ("INCRBY", kind, f"#{place}", count)
            commands.append(("BITFIELD", key, "OVERFLOW", "SAT", *raised))
            commands.append(("EXPIRE", key, step.keep_seconds))
    if commands:
        commands.append(("ZREMRANGEBYSCORE", index, "-inf", now - metric.keep_seconds))
        commands.append(("EXPIRE", index, metric.keep_seconds))
    return commands


def trim(redis: Redis, metrics: Sequence[Metric], now: float) -> None:
    """Delete the least recently updated label sets above the limit, with their counts."""
    indexes = [redis.keys.every_series(metric.name) for metric in metrics]
    _, *sizes = redis.pipeline([("PING",), *(("ZCARD", index) for index in indexes)])
    for metric, index, size in zip(metrics, indexes, sizes, strict=True):
        if size > metric.max_label_sets:
            surplus: list[bytes] = redis.call("ZRANGE", index, 0, size - metric.max_label_sets - 1)
            keys = [
                redis.keys.series(metric.name, step.chunk(number), written.decode("utf-8", "replace"))
                for written in surplus
                for step in metric.steps
                for number in step.chunks(now - step.keep_seconds, now)
            ]
            redis.pipeline([("ZREM", index, *surplus), *(("UNLINK", key) for key in keys)])


def label_sets(redis: Redis, metric: Metric) -> list[Labels]:
    """Return the label sets of a metric, the least recently updated first."""
    members: list[bytes] = redis.call("ZRANGE", redis.keys.every_series(metric.name), 0, -1)
    return [labels for member in members if (labels := _labels(member)) is not None]


def read(
    redis: Redis,
    metric: Metric,
    step: Resolution,
    since: float = 0.0,
    until: float = 0.0,
    *,
    where: Labels | None = None,
) -> list[Buckets]:
    """Return the label sets with counts between two times, in order of their labels.

    Args:
        since, until: epoch seconds, both included. Totals ignore them.
        where: only label sets with these labels.
    """
    first, last = int(since // step.seconds), int(until // step.seconds)
    chunks = step.chunks(since, until)
    index = redis.keys.every_series(metric.name)
    members: list[bytes] = redis.call("ZRANGEBYSCORE", index, first * step.seconds if first else "-inf", "+inf")
    # As `commands_of` writes them: most members need not be decoded.
    pairs = [json.dumps({name: value}, separators=(",", ":"))[1:-1].encode() for name, value in (where or {}).items()]
    known = [
        (member.decode("utf-8", "replace"), labels)
        for member in sorted(members)
        if all(pair in member for pair in pairs) and (labels := _labels(member)) is not None
    ]
    width = metric.cells * metric.bits // 8
    #: First and last step of each chunk, counted from the start of the chunk.
    parts = [
        (chunk, max(first - chunk * step.per_key, 0), min(last - chunk * step.per_key, step.per_key - 1))
        for chunk in chunks
    ]
    gets = [
        ("GETRANGE", redis.keys.series(metric.name, step.chunk(chunk), written), begin * width, (end + 1) * width - 1)
        for written, _ in known
        for chunk, begin, end in parts
    ]
    replies = redis.pipeline(gets, raise_errors=False) if gets else []
    found: list[Buckets] = []
    for place, (_, labels) in enumerate(known):
        of_labels = replies[place * len(parts) : (place + 1) * len(parts)]
        raw = b"".join(
            _padded(reply, width * (end - begin + 1)) for reply, (_, begin, end) in zip(of_labels, parts, strict=True)
        )
        if raw.strip(b"\0"):
            count = (last - first + 1) * metric.cells
            cells = struct.unpack(f">{count}{'I' if metric.bits == 32 else 'q'}", raw)
            found.append(Buckets(labels, metric.cells, cells))
    return found


def _padded(reply: object, size: int) -> bytes:
    """A part of a stored string, padded with zeros; zeros for a missing key or another type."""
    return (reply[:size] if isinstance(reply, bytes) else b"").ljust(size, b"\0")


def _labels(written: bytes) -> dict[str, str] | None:
    try:
        labels: Any = json.loads(written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(labels, dict):
        return None
    decoded = cast("dict[str, object]", labels)
    return {name: value for name, value in decoded.items() if isinstance(value, str)}
