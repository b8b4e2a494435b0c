"""Who fills a queue: a sample of its jobs, counted by caller and by class."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsider.inspector.job_record import JobRecord

#: A sample is counted for so long, and a page more.
_SECONDS = 0.08


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


def count(pages: Iterable[Sequence[JobRecord]], total: int) -> Callers:
    """Count a sample of a queue of ``total`` jobs, page by page, until it has taken long."""
    by_caller: Counter[str] = Counter()
    by_class: Counter[str] = Counter()
    ends = time.monotonic() + _SECONDS
    for page in pages:
        for record in page:
            by_caller[record.caller or ""] += 1
            by_class[record.display_class] += 1
        if time.monotonic() > ends:
            break
    sampled = by_class.total()
    return Callers(sampled, max(total, sampled), dict(by_caller.most_common()), dict(by_class.most_common()))
