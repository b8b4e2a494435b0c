"""An executor without a worker around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsider.config.config import Config
from offsider.worker.parts import WorkerParts
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.executor import Executor
from offsider.worker.run.job_logger import JobLogger
from offsider.worker.settle.report import Reporter
from offsider.worker.work_state import WorkState


def make_executor(
    config: Config,
    runner: AsyncRunner | None = None,
    overran: Callable[..., None] | None = None,
    *,
    stopping: Callable[[], bool] = lambda: False,
    **parts: Any,
) -> Executor:
    work_state = WorkState()
    shared = WorkerParts(config, work_state, Reporter(config, work_state), stopping, **parts)
    capsule = config.capsules["default"]
    return Executor(shared, capsule, JobLogger(config), runner or AsyncRunner("none"), overran)
