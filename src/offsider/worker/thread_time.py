"""Measures how long the threads of this process ran jobs, and how long they existed, since the last heartbeat.

Current runs count as well as finished ones. Otherwise a shard with one-hour jobs would look idle, and then busier than
its threads allow. The elapsed time of current runs is counted once, and subtracted from their duration at the end.
The measurement costs nothing per run.
"""

from __future__ import annotations

from offsider.core.series import Load


class ThreadTime:
    """The thread time of one process; used by its heartbeat alone.

    Args:
        now: start of the threads in monotonic seconds.
    """

    def __init__(self, now: float) -> None:
        self._asked_at = now
        self._under_way = 0.0
        self._was_quiet = False
        self._kept = Load()

    def take(
        self, now: float, *, ended_seconds: float, under_way_seconds: float, threads: int, quiet: bool = False
    ) -> Load:
        """Return the load since the last call; `restore` it if it could not be written.

        Args:
            now: monotonic seconds.
            ended_seconds: total duration of the runs that have ended since the last call.
            under_way_seconds: total elapsed time of the current runs.
            threads: number of threads.
            quiet: the threads fetch no more jobs. From then on a thread exists only while it still runs one.
        """
        # Interrupted runs were counted as current and never count as ended: the result must not become negative.
        ran = max(0.0, ended_seconds + under_way_seconds - self._under_way)
        there = ran if self._was_quiet else threads * max(0.0, now - self._asked_at)
        self._asked_at, self._under_way, self._was_quiet = now, under_way_seconds, quiet
        taken, self._kept = self._kept + Load(ran, there), Load()
        return taken

    def restore(self, load: Load) -> None:
        """Add a load that could not be written to the next one."""
        self._kept += load
