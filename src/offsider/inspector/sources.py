"""Where runs come from: the callers and tenants whose jobs ran.

Counted are runs whose job has a context (`offsider.context`), which web integrations and running jobs open by
themselves. Each process writes its 50 most frequent sources every ten seconds, and the others in one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import run_counts
from offsider.storage.series import MINUTE


@dataclass(frozen=True, slots=True)
class RunSource:
    """The runs of one class that one caller pushed for one tenant.

    Attributes:
        class_name: the job class; empty for all sources that are not listed.
        caller: the job or web route that pushed the jobs; empty if unknown.
        tenant: value of ``meta.tenant``, ``meta.project``, ``meta.organization`` or ``meta.root_namespace``; empty
            without any of them.
        runs: number of runs.
        minutes: runs per minute, the earliest first.
    """

    class_name: str
    caller: str
    tenant: str
    runs: int
    minutes: Sequence[int] = field(repr=False)


def run_sources(
    minutes: int = 60, class_name: str | None = None, *, config: Config | Installation | None = None
) -> list[RunSource]:
    """Return the sources of the last minutes, the most frequent first.

    Args:
        minutes: up to 480, the current one included.
        class_name: only this class; then without the runs of sources that are not listed.
    """
    server = Installation.of(config)
    now = server.config.clock.now()
    found = run_counts.source_minutes(server.redis, now - (minutes - 1) * MINUTE.seconds, now, class_name)
    sources = [RunSource(*source, sum(counts), counts) for source, counts in found]
    return sorted(sources, key=lambda one: (-one.runs, one.class_name, one.caller, one.tenant))
