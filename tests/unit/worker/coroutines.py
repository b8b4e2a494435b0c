"""Coroutines on an event loop without a worker around it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.coroutine_run import CoroutineRun
from offsider.worker.unit_of_work import UnitOfWork


class Started:
    """A coroutine that has a seat and was started.

    Args:
        finish: called in the finishing thread.
        context: a copy of the caller's by default.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        coroutine: Coroutine[Any, Any, Any],
        finish: Callable[[], object] = lambda: None,
        context: Context | None = None,
    ) -> None:
        self.run = CoroutineRun(coroutine)
        self.unit = UnitOfWork("default", b"")
        self._runner = runner
        self._finish = finish
        self._finished = threading.Event()
        assert runner.take_seat()
        runner.start(self.unit, self.run, context or copy_context(), self._end)

    def _end(self) -> None:
        self._finish()
        self._finished.set()

    def result(self) -> Any:
        """Wait for the end; return the result or raise the error."""
        assert self._finished.wait(20)
        self._runner.wait_for(self.unit)
        result, error = self.run.result, self.run.error
        self.run.result = self.run.error = None
        if error is not None:
            raise error
        return result


def tasks(runner: AsyncRunner) -> list[CoroutineRun]:
    """The coroutines that have begun and not ended."""
    return [run for run in runner.running.copy().values() if run.task is not None]
