"""Logs and reaps forked children that return from a job into the worker's code. See `offsider.runtime.forks`.

1. The thread starts with the first fork in this process.
2. A returned child is logged at once: it is a bug in the job.
3. It is reaped after its job has ended in the worker, because the job itself may wait for it. All other children
   belong to the code that forked them: `subprocess`, `multiprocessing`, or the job.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from offsider.runtime import forks
from offsider.runtime.forks import Return, Returns
from offsider.runtime.service import LoopService, OnError

if TYPE_CHECKING:
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

IDLE_SECONDS = 3600.0
#: Poll interval while returned children are waiting to be reaped.
LOOK_SECONDS = 0.2


class Children(LoopService):
    """The service that logs and reaps returned children.

    Args:
        work_state: the running jobs.
        on_error: called with errors of the thread.
    """

    def __init__(self, work_state: WorkState, on_error: OnError) -> None:
        self._work_state = work_state
        self._returns: Returns | None = None
        self._unreaped: list[Return] = []
        super().__init__("offsider-children", self.tick, on_error)

    def start(self) -> None:
        """Receive reports of returned children; the thread starts with the first fork."""
        if hasattr(os, "fork"):
            self._returns = Returns()
            forks.report_to(self._returns, self._loop.start)

    def stop(self) -> None:
        self._loop.stop()
        if self._returns is not None:
            self._returns.wake()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the thread to end, then stop receiving reports."""
        ended = super().join(timeout_seconds)
        if ended and self._returns is not None:
            returns, self._returns = self._returns, None
            forks.report_no_more(returns)
        return ended

    def tick(self) -> float | None:
        """Wait for returned children, log them, and reap those whose jobs have ended."""
        if self._returns is None:
            return None
        for child in self._returns.wait(LOOK_SECONDS if self._unreaped else IDLE_SECONDS):
            self._log(child)
            self._unreaped.append(child)
        self._unreaped = [child for child in self._unreaped if self._runs(child.jid) or not _reaped(child.pid)]
        return 0.0

    def _log(self, child: Return) -> None:
        if child.error == "SystemExit":  # the child exited on purpose
            return
        logger.error(
            "%s: a forked child (process %d) returned to the worker%s and was terminated; end it with os._exit()",
            f"job {child.jid} ({child.name})" if child.name else "handler",
            child.pid,
            f" with {child.error}" if child.error else "",
            extra={"fields": {"class": child.name, "jid": child.jid} if child.name else {}},
        )

    def _runs(self, jid: str) -> bool:
        return bool(jid) and any(jid.encode() in work.unit.raw for work in self._work_state.running().values())


def _reaped(pid: int) -> bool:
    """Reap the child if it has exited; it was about to exit when it reported its return."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # reaped by its job, or a grandchild
        return True
