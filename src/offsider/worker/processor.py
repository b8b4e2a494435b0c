"""A thread that runs jobs, one after the other.

1. Take a unit of work from the fetcher; without one (the fetcher is quiet) the thread ends.
2. Run it: `execution` answers an outcome.
3. Settle the outcome: one script, in `settlement`.
4. Count it, and tell whoever listens.

An error in these steps themselves ends the thread; the manager then starts another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.core.payload import read_stamp
from offsider.wiring.context import in_capsule
from offsider.wiring.events import ExecutionFinished
from offsider.wiring.logs import thread_id
from offsider.worker.outcome import Failed, Interrupted, Malformed
from offsider.worker.settlement import Settled

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.worker.async_runner import AsyncRunner
    from offsider.worker.execution import Executor, Run
    from offsider.worker.settlement import Settlement
    from offsider.worker.unit_of_work import Fetcher, UnitOfWork
    from offsider.worker.work_state import WorkState


class Processor:
    """One thread of a capsule.

    Args:
        died: called in the dying thread with this processor and what killed it; not called at a normal end.
    """

    def __init__(
        self,
        *,
        config: Config,
        capsule: Capsule,
        fetcher: Fetcher,
        executor: Executor,
        settlement: Settlement,
        work_state: WorkState,
        async_runner: AsyncRunner,
        name: str,
        died: Callable[[Processor, BaseException], None],
    ) -> None:
        self._config = config
        self._capsule = capsule
        self._fetcher = fetcher
        self._executor = executor
        self._settlement = settlement
        self._work_state = work_state
        self._async_runner = async_runner
        self._died = died
        self._unit: UnitOfWork | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_seconds: float | None) -> bool:
        """Wait for the thread to end; True when it has."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def unit(self) -> UnitOfWork | None:
        """What it works on; of a processor that died, what it had not settled."""
        return self._unit

    def interrupt(self) -> None:
        """Stop the running job, if it can be reached."""
        thread_id = self._thread.ident
        if thread_id is not None and not self._async_runner.cancel(thread_id):
            self._executor.window.interrupt()

    def _run(self) -> None:
        try:
            with in_capsule(self._capsule):
                while (unit := self._fetcher.retrieve()) is not None:
                    self._process(unit)
        except BaseException as error:  # noqa: BLE001 - the last words of a thread
            self._died(self, error)

    def _process(self, unit: UnitOfWork) -> None:
        self._unit = unit
        thread = thread_id()
        now = self._config.clock.now()
        self._work_state.begin(thread, unit, now)
        unit.started = True
        try:
            run = self._executor.run(unit)
            settled = self._settlement.settle(unit, run)
        finally:
            self._work_state.end(thread)
        self._unit = None
        if settled in (Settled.WRITTEN, Settled.DIED):
            self._report(run, settled, queued_seconds(run.job, now))

    def _report(self, run: Run, settled: Settled, queued: float | None) -> None:
        outcome = run.outcome
        error = outcome.error if isinstance(outcome, (Failed, Malformed)) else None
        if error is not None:
            self._config.handle_error(error, _context(run))
        if run.job is None:
            return
        if not isinstance(outcome, Interrupted):
            self._work_state.count(failed=isinstance(outcome, Failed))
        name = "died" if settled is Settled.DIED and isinstance(outcome, Failed) else outcome.name
        self._config.events.emit(
            "execution_finished",
            ExecutionFinished(run.job, name, error, queued, run.duration_seconds, run.cpu_seconds),
        )


def _context(run: Run) -> dict[str, object]:
    if run.job is not None:
        return {"job": run.job.payload}
    raw = run.outcome.error.raw if isinstance(run.outcome, Malformed) else b""
    return {"context": "a malformed payload", "jobstr": raw}


def queued_seconds(job: JobContext | None, started_at: float) -> float | None:
    """How long a job lay in its queue; never negative, whatever the clocks of two machines say."""
    enqueued_at = read_stamp(job.payload.get("enqueued_at")) if job is not None else None
    return None if enqueued_at is None else max(0.0, started_at - enqueued_at)
