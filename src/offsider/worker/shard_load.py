"""How long the threads of this process ran jobs, and how long there were threads, since somebody last asked.

A run counts while it goes on and not only when it has ended, so that jobs of an hour do not look like an idle shard
and then like more than all of it. What jobs that run now have run so far is told once, and taken off what they have
taken at their end. Nothing of this is done for each run.
"""

from __future__ import annotations

from offsider.storage.shard_loads import Load


class ShardLoad:
    """The work of one process; used by its heartbeat alone.

    Args:
        now: monotonic seconds, since when there are threads.
    """

    def __init__(self, now: float) -> None:
        self._asked_at = now
        self._under_way = 0.0
        self._was_quiet = False
        self._kept = Load()

    def take(
        self, now: float, *, ended_seconds: float, under_way_seconds: float, threads: int, quiet: bool = False
    ) -> Load:
        """What was done since the last time; `give_back` when it could not be written.

        Args:
            now: monotonic seconds.
            ended_seconds: that the runs took which have ended since.
            under_way_seconds: for how long the jobs that run now have run.
            threads: how many there are.
            quiet: they take no further jobs. From then on a thread is there for as long as it still runs one.
        """
        # Runs that were interrupted have been told of and never end: that may not make less than nothing.
        ran = max(0.0, ended_seconds + under_way_seconds - self._under_way)
        there = ran if self._was_quiet else threads * max(0.0, now - self._asked_at)
        self._asked_at, self._under_way, self._was_quiet = now, under_way_seconds, quiet
        taken, self._kept = self._kept + Load(ran, there), Load()
        return taken

    def give_back(self, load: Load) -> None:
        self._kept += load
