"""A thread that runs jobs, one after the other.

1. Take a unit of work from the fetcher; without one (the fetcher is quiet) the thread ends. One that is suspected of
   killing processes waits until it is alone here.
2. Run it: `execution` answers an outcome.
3. Settle the outcome, in `settlement`: one script, or for a job that is done an acknowledgement that may travel
   with others; what follows of it, `Reporter` is then told by whoever reads the reply.
4. Have it counted and told, in `report`.

An error in these steps themselves ends the thread; the manager then starts another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.wiring.context import in_capsule
from offsider.wiring.logs import thread_id
from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.settlement import Settled

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.async_runner import AsyncRunner
    from offsider.worker.execution import Executor
    from offsider.worker.report import Reporter
    from offsider.worker.settlement import Settlement
    from offsider.worker.solitude import Solitude
    from offsider.worker.unit_of_work import Fetcher, UnitOfWork
    from offsider.worker.work_state import WorkState


class Processor:
    """One thread of a capsule.

    Args:
        died: called in the dying thread with this processor and what killed it; not called at a normal end.
        solitude: says which jobs must run alone, and when they may.
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
        reporter: Reporter,
        async_runner: AsyncRunner,
        name: str,
        died: Callable[[Processor, BaseException], None],
        solitude: Solitude | None = None,
    ) -> None:
        self._clock = config.clock
        self._capsule = capsule
        self._fetcher = fetcher
        self._executor = executor
        self._settlement = settlement
        self._work_state = work_state
        self._reporter = reporter
        self._async_runner = async_runner
        self._died = died
        self._solitude = solitude
        self._tid = ""
        self._unit: UnitOfWork | None = None
        #: Its job has failed and still runs: nobody waits for it any more.
        self.given_up = False
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
                self._tid = thread_id()
                while (unit := self._fetcher.retrieve()) is not None:
                    if self._solitude is not None and self._solitude.is_suspect(unit):
                        self._process_alone(unit, self._solitude)
                    else:
                        self._process(unit)
        except BaseException as error:  # noqa: BLE001 - the last words of a thread
            self._died(self, error)

    def _process_alone(self, unit: UnitOfWork, solitude: Solitude) -> None:
        """Run a job that processes died with when nothing else runs here, or send it behind all that wait."""
        self._unit = unit
        with solitude.alone(unit) as granted:
            if granted:
                self._process(unit)
            else:
                solitude.put_last(unit)
        if not granted and isinstance(self._fetcher, ReliableFetcher):
            self._fetcher.release(unit)
        self._unit = None

    def _process(self, unit: UnitOfWork) -> None:
        unit.started_at = self._clock.now()
        unit.started = True
        self._unit = unit
        self._work_state.begin(self._tid, unit)
        try:
            run = self._executor.run(unit)
            settled = self._settlement.settle(unit, run)
        finally:
            self._work_state.end(self._tid)
        self._unit = None
        if settled is Settled.WRITTEN or settled is Settled.DIED:
            self._reporter.settled(unit, run, died=settled is Settled.DIED)
