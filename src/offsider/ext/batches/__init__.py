"""Batches: jobs with callbacks that run when all of them have run, or have succeeded, or one has died.

1. The pushes of a block are collected, and stored with their membership (`block`, `batch`).
2. The script that writes the outcome of a member updates its batch, and pushes the callbacks (`runs`, `store`).
3. Operators see batches on their pages (`status`, `web`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from offsider.core.clock import as_seconds
from offsider.core.errors import ConfigurationError
from offsider.ext.batches.batch import Batch, current_batch
from offsider.ext.batches.block import Block
from offsider.ext.batches.findings import find_batches
from offsider.ext.batches.runs import BatchRuns
from offsider.ext.batches.status import BatchSet, Callback, Status, check_batches, families
from offsider.ext.batches.steps import RESULT
from offsider.ext.batches.store import Lives
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
        ttl_seconds = as_seconds(ttl, "Batches(ttl=…)", at_least=1, error=ConfigurationError)
        linger_seconds = as_seconds(linger, "Batches(linger=…)", at_least=1, error=ConfigurationError)
        self._lives = Lives(int(ttl_seconds), max(MIN_LINGER_SECONDS, int(linger_seconds)))

    def install(self, config: Config) -> None:
        """Add the effects of pushes and outcomes, the web tab, metrics and the check of the doctor."""
        config.shared.get(Lives, lambda: self._lives)
        BatchRuns(config).install()
        config.add_web_tab(make_tab())
        config.metric_families.append(families)
        config.findings.append(find_batches)
        config.doctor_checks.append(check_batches)
