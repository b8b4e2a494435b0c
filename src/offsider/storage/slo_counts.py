"""How many runs kept what was promised of them, by class and what it says of itself, in stretches of time.

Two steps are kept: ten minutes for the last hours, and hours for the last days. What is written is what went wrong
and how much there was, so that a class that does well costs one field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.objectives import Score
from offsider.core.series import Series
from offsider.storage.execution_metrics import LONGEST_COUNT
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: Labels of a series that are kept apart here; those of extensions are not.
KEPT = ("boundary", "class", "feature_category", "shard", "urgency")


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of time that is counted as one: its name in keys, its seconds, and how long it is kept."""

    name: str
    seconds: int
    keep_seconds: int


TEN_MINUTES = Step("10m", 600, 8 * 3600)
HOUR = Step("1h", 3600, 80 * 3600)
#: Window -> which steps it is read in, and how many of them; the last one has not ended.
WINDOWS: Mapping[str, tuple[Step, int]] = {"1h": (TEN_MINUTES, 6), "6h": (TEN_MINUTES, 36), "3d": (HOUR, 72)}


def commands_of(keys: Keys, series: Iterable[Series], now: float) -> list[Command]:
    """The commands that add to the stretches of time of ``now`` (epoch seconds). Zeros are not written."""
    scores: dict[str, Score] = {}
    for each in series:
        labels = json.dumps({name: each.labels[name] for name in KEPT if each.labels.get(name)}, separators=(",", ":"))
        missed = max(0, each.processed - each.failed - each.satisfied)
        scores[labels] = scores.get(labels, Score()) + Score(each.processed, each.failed, missed)
    commands: list[Command] = []
    for step in (TEN_MINUTES, HOUR):
        key = _key(keys, step, now)
        for labels, score in scores.items():
            counts = (("t", score.total), ("f", score.failed), ("m", score.missed))
            commands += [("HINCRBY", key, f"{labels}|{field}", count) for field, count in counts if count]
        if scores:
            commands.append(("EXPIRE", key, step.keep_seconds))
    return commands


def read(redis: Redis, now: float) -> dict[str, list[tuple[dict[str, str], Score]]]:
    """Window -> the labels and the score of each class in it."""
    wanted = [
        (window, _key(redis.keys, step, now - back * step.seconds))
        for window, (step, count) in WINDOWS.items()
        for back in range(count)
    ]
    keys = list(dict.fromkeys(key for _, key in wanted))
    replies = dict(zip(keys, redis.pipeline([("HGETALL", key) for key in keys], raise_errors=False), strict=True))
    fields: dict[str, dict[bytes, int]] = {window: {} for window in WINDOWS}
    for window, key in wanted:
        sums = fields[window]
        for field, count in _pairs(replies[key]):
            sums[field] = sums.get(field, 0) + count
    return {window: _scores(sums) for window, sums in fields.items()}


def _key(keys: Keys, step: Step, at: float) -> str:
    return keys.slo(step.name, str(int(at // step.seconds)))


def _pairs(reply: object) -> list[tuple[bytes, int]]:
    """The counts of a hash; none for the error that stands in place of one."""
    values = cast("list[bytes]", reply) if isinstance(reply, list) else []
    pairs = zip(values[::2], values[1::2], strict=True)
    return [(field, int(count)) for field, count in pairs if count.isdigit() and len(count) <= LONGEST_COUNT]


def _scores(sums: Mapping[bytes, int]) -> list[tuple[dict[str, str], Score]]:
    counts: dict[bytes, dict[bytes, int]] = {}
    for field, count in sums.items():
        labels, _, kind = field.rpartition(b"|")
        counts.setdefault(labels, {})[kind] = count
    scores = ((_labels(labels), kinds) for labels, kinds in counts.items())
    return [
        (labels, Score(kinds.get(b"t", 0), kinds.get(b"f", 0), kinds.get(b"m", 0)))
        for labels, kinds in scores
        if labels.get("class")
    ]


def _labels(written: bytes) -> dict[str, str]:
    try:
        labels: Any = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(labels, dict):
        return {}
    told = cast("dict[str, object]", labels)
    return {name: value for name in KEPT if isinstance(value := told.get(name), str)}
