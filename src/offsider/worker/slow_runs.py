"""Takes three stack samples of a run that lasts unusually long, so that pages can show where it is.

Unusually long: more than `MIN_SECONDS`, and `TIMES_P95` times the 95th percentile of its class in the last hour. A
class without runs in that time has no percentile; its long runs are sampled too.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from offsider.core.payload import decode_or_none, shown_class
from offsider.core.series import DURATION_SECONDS, summed
from offsider.inspector.statistics import percentile
from offsider.runtime.outage import Outage
from offsider.storage import run_counts, stack_samples
from offsider.storage.stack_samples import MAX_SAMPLES, StackSample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.runtime.context import Reach
    from offsider.storage.redis import Redis
    from offsider.worker.unit_of_work import UnitOfWork
    from offsider.worker.work_state import RunningUnit, WorkState

MIN_SECONDS = 10.0
TIMES_P95 = 5
#: Percentiles are computed from the runs of this time, and again after `RECALL_SECONDS`.
WINDOW_SECONDS = 3_600
RECALL_SECONDS = 300
#: Innermost frames of a sample.
MAX_FRAMES = 20


class SlowRuns:
    """The long runs of one worker; the watchdog calls `sample` at each beat.

    Args:
        runs: returns the running jobs, each with what reaches its frames.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        work_state: WorkState,
        runs: Callable[[], Iterable[tuple[UnitOfWork, Reach]]],
    ) -> None:
        self._clock = config.clock
        self._redis = redis
        self._work_state = work_state
        self._runs = runs
        #: Samples taken of each long run, by jid and start.
        self._taken: dict[tuple[str, float], int] = {}
        #: Percentile of a class and when it was read, in monotonic seconds.
        self._known: dict[str, tuple[float, float]] = {}
        self._outage = Outage("sampling long runs", config)

    def sample(self) -> None:
        """Take a sample of each run that lasts unusually long."""
        now = self._clock.now()
        long = [work for work in self._work_state.running().values() if now - work.run_at > MIN_SECONDS]
        taken, self._taken = self._taken, {}
        reaches = dict(self._runs()) if long else {}
        with self._outage:
            for work in long:
                self._sample(work, reaches.get(work.unit), taken, now)

    def _sample(
        self, work: RunningUnit, reach: Reach | None, taken: Mapping[tuple[str, float], int], now: float
    ) -> None:
        payload = decode_or_none(work.unit.raw)
        jid = "" if payload is None else payload.get("jid", "")
        if payload is None or not jid:
            return
        run = jid, work.run_at
        self._taken[run] = taken.get(run, 0)
        if self._taken[run] >= MAX_SAMPLES or now - work.run_at <= TIMES_P95 * self._p95(payload, now):
            return
        frames: Sequence[FrameType] = () if reach is None else reach.frames()[-MAX_FRAMES:]
        if frames:
            lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format()
            self._taken[run] += 1
            stack_samples.add(self._redis, jid, StackSample(work.run_at, now, "".join(lines)))

    def _p95(self, payload: JobPayload, now: float) -> float:
        name, read_at = shown_class(payload), time.monotonic()
        seconds, at = self._known.get(name, (0.0, -RECALL_SECONDS))
        if read_at - at >= RECALL_SECONDS:
            self._known = {each: known for each, known in self._known.items() if read_at - known[1] < RECALL_SECONDS}
            seconds = p95(self._redis, name, now)
            self._known[name] = seconds, read_at
        return seconds


def p95(redis: Redis, name: str, now: float) -> float:
    """Return the upper bound of the 95th percentile of a class's runs in the last hour; 0 without runs."""
    runs = summed((one for _, one in run_counts.release_minutes(redis, now - WINDOW_SECONDS, now, name)), ())
    if not runs:
        return 0.0
    return min(percentile(runs[0].run_buckets, DURATION_SECONDS, 0.95) or 0.0, DURATION_SECONDS[-1])
