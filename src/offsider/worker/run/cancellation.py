"""Cancels one running job, because an operator asked for it.

`JobCancelled` is raised in the run like the error of a time limit: in its thread, or at the next ``await`` of its
coroutine. The run fails and is not retried: the job moves to the dead set, from where it can be retried. A thread in a
system call or in C code notices when it returns to Python; a warning reports where it is until then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.core.errors import JobCancelled
from offsider.core.payload import decode_or_none
from offsider.worker.run.interrupt import OBSTACLE

if TYPE_CHECKING:
    from offsider.runtime.context import Reach
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

#: Time for the error to be raised in the run before a warning is logged.
GRACE_SECONDS = 1.5
POLL_SECONDS = 0.02
MESSAGE = "an operator canceled this run"


def jid_of(unit: UnitOfWork) -> str:
    """Return the id of a job that may not have ended yet; empty if it has none."""
    payload = decode_or_none(unit.raw)
    return "" if payload is None else payload.get("jid", "")


class Cancellation:
    """One request to cancel the run of a job.

    Args:
        find: returns the run while it lasts, by the id of its job; None if it does not run here.
    """

    def __init__(self, jid: str, find: Callable[[str], Reach | None]) -> None:
        self.jid = jid
        self._find = find
        self._landed = False

    def start(self) -> None:
        """Cancel it in a thread of its own, so that other signals do not wait."""
        threading.Thread(target=self.run, name="offsider-cancel", daemon=True).start()

    def run(self) -> None:
        """Raise the error in the run, and wait until it was raised."""
        extra = {"fields": {"jid": self.jid}}
        found, aimed = self._find(self.jid), False
        if found is None:
            logger.info("job %s does not run in this process: nothing to cancel", self.jid, extra=extra)
            return
        deadline = time.monotonic() + GRACE_SECONDS
        while found is not None and not self._landed and time.monotonic() < deadline:
            # Not aimed: the run is entering or leaving its function, or a context manager.
            aimed = aimed or found.aim(JobCancelled, MESSAGE, self._has_landed)
            time.sleep(POLL_SECONDS)
            found = self._find(self.jid)
        if found is None or self._landed:
            return
        place = found.place()
        logger.warning(
            "job %s is canceled, but cannot be interrupted%s: %s",
            self.jid,
            f" at {place}" if place else "",
            OBSTACLE if OBSTACLE and not aimed else "it is in a system call or in C code, and ends when that returns",
            extra=extra,
        )

    def _has_landed(self) -> None:
        self._landed = True
