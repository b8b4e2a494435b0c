"""An executor without a worker around it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from offsider.config.config import Config
from offsider.worker.parts import WorkerParts
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.executor import Executor
from offsider.worker.run.job_logger import JobLogger
from offsider.worker.settle.report import Reporter
from offsider.worker.unit_of_work import Run, UnitOfWork
from offsider.worker.work_state import WorkState


def make_executor(
    config: Config,
    runner: AsyncRunner | None = None,
    overran: Callable[..., None] = lambda unit, run: None,
    *,
    stopping: Callable[[], bool] = lambda: False,
    **parts: Any,
) -> Executor:
    work_state = WorkState()
    shared = WorkerParts(config, work_state, Reporter(config, work_state), stopping, **parts)
    capsule = config.capsules["default"]
    return Executor(shared, capsule, JobLogger(config), runner or AsyncRunner("none"), overran)


def run_job(executor: Executor, unit: UnitOfWork) -> Run:
    """Run one job to its end, as a processor does; its coroutine, too."""
    context = copy_context()
    run = context.run(executor.run, unit, 0.0)
    if run.coroutine is not None:
        ended = threading.Event()

        def finish() -> None:
            context.run(executor.finish, run)
            ended.set()

        executor._async_runner.start(unit, run.coroutine, context, finish)
        assert ended.wait(20)
    return run
