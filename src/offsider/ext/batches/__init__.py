"""Batches: jobs with callbacks that run when all of them have run, or have succeeded, or one has died.

1. The pushes of a block are collected, and stored with their membership (`block`, `batch`).
2. The script that writes the outcome of a member updates its batch, and pushes the callbacks (`runs`, `store`).
3. Operators see batches on their pages (`status`, `batch_set`, `web`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from offsider.core.errors import ConfigurationError
from offsider.ext.batches.batch import Batch, current_batch
from offsider.ext.batches.batch_set import BatchSet
from offsider.ext.batches.block import Block
from offsider.ext.batches.doctor import check_batches, families
from offsider.ext.batches.runs import BatchRuns
from offsider.ext.batches.status import Callback, Status
from offsider.ext.batches.steps import RESULT
from offsider.ext.batches.store import Installed
from offsider.ext.batches.web import make_tab
from offsider.ext.batches.workflow import Chain, Group, Workflow, chain, chord, group

if TYPE_CHECKING:
    from offsider.config.config import Config

__all__ = [
    "RESULT",
    "Batch",
    "BatchSet",
    "Batches",
    "Block",
    "Callback",
    "Chain",
    "Group",
    "Status",
    "Workflow",
    "chain",
    "chord",
    "current_batch",
    "group",
]

MIN_LINGER_SECONDS = 30


class Batches:
    """Extension for batches of jobs.

    ::

        config.use(Batches())

    Every process that pushes or runs jobs of batches needs it, workers included.

    Args:
        ttl: how long a batch is kept after it was last opened, and after the last of its scheduled members is due, in
            seconds or as a timedelta; 30 days by default. With a dead job it is kept as long as that, in
            ``worker.dead_timeout_seconds``.
        linger: how long a batch is kept after its success; a day by default, at least 30 seconds.

    Raises:
        ConfigurationError: a duration is invalid.
    """

    name = "batches"

    def __init__(self, *, ttl: float | timedelta = timedelta(days=30), linger: float | timedelta = 86_400) -> None:
        ttl_seconds = _seconds("ttl", ttl)
        self._installed = Installed(ttl_seconds, max(MIN_LINGER_SECONDS, _seconds("linger", linger)))

    def install(self, config: Config) -> None:
        """Add the effects of pushes and outcomes, the web tab, metrics and the check of the doctor."""
        config.shared.get(Installed, lambda: self._installed)
        BatchRuns(config).install()
        config.add_web_tab(make_tab())
        config.add_metrics(families)
        config.add_doctor_check(check_batches)


def _seconds(name: str, value: float | timedelta) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not 1 <= seconds < 1e9:
        raise ConfigurationError(f"Batches({name}=…): expected at least 1 second, or a timedelta, got {value!r}")
    return int(seconds)
