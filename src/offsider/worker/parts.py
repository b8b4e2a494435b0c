"""Objects that the components of one worker share; the launcher creates them once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.middleware import Admission
    from offsider.worker.alive.isolation import Isolation
    from offsider.worker.run.time_limits import TimeLimits
    from offsider.worker.settle.report import Reporter
    from offsider.worker.work_state import WorkState


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """Objects that the capsules of one worker share.

    Attributes:
        stopping: returns whether the worker is stopping.
        give_up: stops the worker for the given reason, with an exit code that makes its supervisor restart it.
        time_limits: enforces the time limits of jobs; None disables them.
        admissions: decide whether a job runs; they run before those of extensions.
        isolation: decides which jobs must run alone.
    """

    config: Config
    work_state: WorkState
    reporter: Reporter
    stopping: Callable[[], bool]
    give_up: Callable[[str], None] | None = None
    time_limits: TimeLimits | None = None
    admissions: Sequence[Admission] = ()
    isolation: Isolation | None = None
