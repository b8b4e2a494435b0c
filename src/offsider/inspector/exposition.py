"""Numbers as Prometheus reads them: the text format 0.0.4, which every version of it takes.

`fleet_text` is what a scrape of ``offsider web`` answers: everything that is in Redis, whoever wrote it. `series_text`
is for who has counted by itself, such as the keeper of a few workers.
"""

from __future__ import annotations

from collections.abc import Iterable

from offsider.core.series import Series
from offsider.inspector.families import (
    concurrency_family,
    families_of_extensions,
    fleet_families,
    running_family,
    series_families,
)
from offsider.inspector.family import render
from offsider.inspector.fleet import Fleet
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def fleet_text(config: Config | None = None) -> str:
    """Everything that one server tells about its jobs, queues and processes.

    Raises:
        RedisFailure: it tells nothing.
    """
    config = config if config is not None else default_config()
    return render([*fleet_families(Fleet.read(config)), *families_of_extensions(config)])


def series_text(series: Iterable[Series], *, concurrency: int | None = None, running: int | None = None) -> str:
    """What was counted of runs, without a look at Redis.

    Args:
        series: sums by class, queue and whatever else.
        concurrency: how many jobs those who counted run at a time; None leaves it out.
        running: how many of these they run now; None leaves it out.
    """
    families = series_families(list(series))
    if running is not None:
        families.append(running_family({(): running}))
    if concurrency is not None:
        families.append(concurrency_family(concurrency))
    return render(families)
