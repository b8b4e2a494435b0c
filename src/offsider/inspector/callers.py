"""Who fills a queue: a sample of its jobs, counted by caller and by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from offsider.inspector.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class Callers:
    """What a sample of a queue is made of.

    Attributes:
        sampled: how many jobs were looked at.
        total: how many jobs the queue has.
        by_caller: jobs in the sample for each caller, the biggest first; ``""`` stands for those that do not tell.
        by_class: the same for each class, by the name that its author knows.
    """

    sampled: int
    total: int
    by_caller: dict[str, int]
    by_class: dict[str, int]


def count(records: Iterable[JobRecord], total: int) -> Callers:
    """Count a sample of a queue of ``total`` jobs."""
    by_caller: Counter[str] = Counter()
    by_class: Counter[str] = Counter()
    for record in records:
        by_caller[record.caller or ""] += 1
        by_class[record.display_class] += 1
    sampled = by_class.total()
    return Callers(sampled, max(total, sampled), dict(by_caller.most_common()), dict(by_class.most_common()))
