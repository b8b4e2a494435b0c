"""Objects that the components of one worker share; created once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.worker.health_state import QUIET, READY, STOPPING

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.middleware import ServerMiddleware
    from offsider.worker.alive.isolation import Isolation
    from offsider.worker.run.isolated import IsolatedChildren
    from offsider.worker.run.time_limits import TimeLimits
    from offsider.worker.settle.report import Reporter
    from offsider.worker.work_state import WorkState


class Lifecycle:
    """The lifecycle state of a worker. The launcher changes it, all other parts read it.

    Attributes:
        on_signal: handles ``TSTP``, ``TERM`` and ``TTIN`` that were sent through Redis, and ``TERM`` of `give_up`.
        quieted: the worker takes no more jobs.
        stopping: jobs should end early; the worker takes no more jobs by then.
        hurried: running jobs get no more time.
        broken: why the worker stops by itself, with an exit code that makes its parent restart it; else empty.
    """

    def __init__(self, on_signal: Callable[[str], None]) -> None:
        self.on_signal = on_signal
        self.quieted = False
        self.stopping = False
        self.hurried = False
        self.broken = ""

    @property
    def state(self) -> str:
        """``"ready"``, ``"quiet"`` or ``"stopping"``, for the health endpoint."""
        if self.stopping:
            return STOPPING
        return QUIET if self.quieted else READY

    def give_up(self, reason: str) -> None:
        """Stop the worker because of a permanent fault."""
        self.broken = reason
        self.on_signal("TERM")


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """Objects that the capsules of one worker share.

    Attributes:
        stopping: returns whether the worker is stopping.
        give_up: stops the worker for the given reason, with an exit code that makes its parent restart it.
        time_limits: enforces the time limits of jobs; None disables them.
        admissions: decide whether a job runs; they run before the admissions of extensions.
        isolation: decides which jobs must run alone.
        children: run isolated jobs; None without any, and in another program.
    """

    config: Config
    work_state: WorkState
    reporter: Reporter
    stopping: Callable[[], bool]
    give_up: Callable[[str], None] | None = None
    time_limits: TimeLimits | None = None
    admissions: Sequence[ServerMiddleware] = ()
    isolation: Isolation | None = None
    children: IsolatedChildren | None = None
