"""How many runs kept what was promised of them, by class and what it says of itself, in stretches of time.

Two steps are kept: ten minutes for the last hours, and hours for the last days. What is written is what went wrong
and how much there was, so that a class that does well costs one field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from offsider.core.objectives import Score
from offsider.core.series import Series
from offsider.storage import hashes
from offsider.storage.execution_metrics import LONGEST_COUNT
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: Field of a hash -> its count.
Sums: TypeAlias = Mapping[bytes, int]

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

#: The running step, and those before it to which a worker that was held up may still add.
_OPEN_STEPS = 3


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


class Past:
    """The sums of steps that nobody adds to any more, kept between two looks: they are nearly all that is read."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Sequence[str], Sums]] = {}

    def find(self, window: str, keys: Sequence[str]) -> Sums | None:
        """What these steps came to in this window; None when they were not read before."""
        known = self._sums.get(window)
        return known[1] if known is not None and known[0] == keys else None

    def keep(self, window: str, keys: Sequence[str], sums: Sums) -> None:
        self._sums[window] = keys, sums


def read(redis: Redis, now: float, past: Past | None = None) -> dict[str, list[tuple[dict[str, str], Score]]]:
    """Window -> the labels and the score of each class in it.

    Args:
        redis: where they are.
        now: epoch seconds.
        past: what was read before, and what is read now for the next time; None: all is read.
    """
    past = Past() if past is None else past
    steps = {
        window: [_key(redis.keys, step, now - back * step.seconds) for back in range(count)]
        for window, (step, count) in WINDOWS.items()
    }
    known = {window: past.find(window, keys[_OPEN_STEPS:]) for window, keys in steps.items()}
    wanted = [keys if known[window] is None else keys[:_OPEN_STEPS] for window, keys in steps.items()]
    keys = list(dict.fromkeys(key for each in wanted for key in each))
    replies = dict(zip(keys, redis.pipeline([("HGETALL", key) for key in keys], raise_errors=False), strict=True))
    found: dict[str, list[tuple[dict[str, str], Score]]] = {}
    for window, of_window in steps.items():
        settled = known[window]
        if settled is None:
            older = of_window[_OPEN_STEPS:]
            settled = _summed({}, older, replies)
            if not any(isinstance(replies[key], Exception) for key in older):
                past.keep(window, older, settled)
        found[window] = _scores(_summed(settled, of_window[:_OPEN_STEPS], replies))
    return found


def _summed(sums: Sums, keys: Sequence[str], replies: Mapping[str, object]) -> Sums:
    """These sums and those of further steps."""
    total = dict(sums)
    for key in keys:
        for field, count in _counts(replies[key]):
            total[field] = total.get(field, 0) + count
    return total


def _key(keys: Keys, step: Step, at: float) -> str:
    return keys.slo(step.name, str(int(at // step.seconds)))


def _counts(reply: object) -> list[tuple[bytes, int]]:
    found = hashes.pairs(reply)
    return [(field, int(count)) for field, count in found if count.isdigit() and len(count) <= LONGEST_COUNT]


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
