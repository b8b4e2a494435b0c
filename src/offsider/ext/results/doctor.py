"""The ``offsider doctor`` check of states and results: their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.core.wording import counted
from offsider.ext.results import store
from offsider.inspector.finding import Finding, ok, warn

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: Number of jobs to measure: the last ones of the classes with the latest ends.
SAMPLES = 200
CLASSES = 20
LARGE_BYTES = 100_000


def check_results(server: Installation) -> Iterator[Finding]:
    """Report classes whose results and kept arguments are large on average."""
    redis = server.redis
    classes = store.classes(redis)
    large: list[str] = []
    for name, _ in classes[:CLASSES]:
        jids = [job.jid for job in store.finished(redis, name, SAMPLES // CLASSES) if job.state == "succeeded"]
        keys = [store.job_key(redis.keys, jid) for jid in jids]
        sizes = redis.pipeline([("HSTRLEN", key, field) for key in keys for field in ("result", "arguments")])
        if keys and sum(sizes) / len(keys) > LARGE_BYTES:
            large.append(f"{name} ({sum(sizes) // len(keys) // 1000:,} kB)")
    if large:
        yield warn(
            "results",
            f"large results or arguments: {', '.join(large)} on average",
            cause="they are kept in the server's memory until they expire",
            action="store the data elsewhere and return its id or path, or lower keep_result or result_max_bytes",
        )
    else:
        yield ok("results", f"{counted(len(classes), 'class')} with finished tracked jobs")
