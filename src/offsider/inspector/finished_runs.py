"""The flight recorder: the latest finished runs, also of jobs that no longer exist because they have succeeded."""

from __future__ import annotations

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import finished_runs
from offsider.storage.finished_runs import FinishedRun

__all__ = ["FinishedRun", "FinishedRuns"]


class FinishedRuns:
    """The latest 700,000 runs of a server, of all workers. Ruby's workers record none.

    A process records up to ``worker.recorded_runs_per_second``, and each second.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._redis = Installation.of(config).redis

    def of_job(self, jid: str) -> list[FinishedRun]:
        """Return the runs of a job, the latest first; searches 16 MB at most, on the server."""
        return finished_runs.of_job(self._redis, jid)

    def of_class(self, name: str, count: int = 25) -> list[FinishedRun]:
        """Return the last runs of a class, the latest first."""
        return finished_runs.of_class(self._redis, name, count)

    @property
    def since(self) -> float | None:
        """Start of the oldest run in epoch seconds; None if there is none."""
        return finished_runs.oldest_at(self._redis)
