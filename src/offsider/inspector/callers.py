"""Sample a queue and count its jobs by caller and by class."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsider.inspector.job_record import JobRecord

#: Time budget of a sample; the page that exceeds it is counted too.
_SECONDS = 0.08


@dataclass(frozen=True, slots=True)
class Callers:
    """Counts of a sample of a queue.

    Attributes:
        sampled: number of jobs in the sample.
        total: number of jobs in the queue.
        by_caller: number of sampled jobs by caller, highest first; ``""`` for jobs without a caller.
        by_class: number of sampled jobs by display class, highest first.
    """

    sampled: int
    total: int
    by_caller: dict[str, int]
    by_class: dict[str, int]


def count(pages: Iterable[Sequence[JobRecord]], total: int) -> Callers:
    """Count a sample of a queue of ``total`` jobs, page by page, within the time budget."""
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
