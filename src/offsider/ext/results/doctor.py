"""The ``offsider doctor`` check of states and results: their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.core.wording import counted
from offsider.ext.results import store
from offsider.inspector.doctor.finding import Finding, ok, warn

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: Number of results to measure: the last ones of the classes with the latest ends.
SAMPLES = 200
CLASSES = 20
LARGE_BYTES = 100_000


def check_results(here: Installation) -> Iterator[Finding]:
    """Report classes whose results are large on average."""
    redis = here.redis
    classes = store.classes(redis)
    large: list[str] = []
    total = 0
    for name, _ in classes[:CLASSES]:
        jids = [job.jid for job in store.finished(redis, name, SAMPLES // CLASSES) if job.state == "succeeded"]
        sizes = redis.pipeline([("HSTRLEN", store.job_key(redis.keys, jid), "result") for jid in jids])
        total += len(sizes)
        if sizes and sum(sizes) / len(sizes) > LARGE_BYTES:
            large.append(f"{name} ({sum(sizes) // len(sizes) // 1000:,} kB)")
    if large:
        yield warn(
            "results",
            f"large results: {', '.join(large)} on average",
            why="all results are kept in the server's memory until they expire",
            fix="return an id or a path, and store the data elsewhere; or lower keep_result or result_max_bytes",
        )
    else:
        yield ok("results", f"{counted(len(classes), 'class')} with finished tracked jobs")
