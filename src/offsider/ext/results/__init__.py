"""States, results, progress and cancellation of jobs.

1. A push, the start of a run and each outcome write the state of a tracked job (`without_runs`, `runs`, `control`,
   `store`); writes of pushes and outcomes in the same script as the job.
2. `reader` implements the methods of `JobId`. A caller that waits for a result sends nothing (`subscriber`).
3. A cancellation deletes a waiting job (`reader`) or reaches the process that runs it (`runs`, `control`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.ext.results import store
from offsider.ext.results.reader import Reader
from offsider.ext.results.runs import ResultNotStored, ResultRuns
from offsider.ext.results.store import KEEP_RESULT, TRACK, ResultSettings, check_results
from offsider.ext.results.web import make_tab
from offsider.ext.results.without_runs import WithoutRuns

if TYPE_CHECKING:
    from offsider.config.config import Config

__all__ = ["ResultNotStored", "Results"]


class Results:
    """Extension that stores states and results of jobs with the options ``track`` and ``keep_result``.

    ::

        config.use(Results())

        @job(keep_result=3600)
        def report(account_id: int) -> dict[str, int]: ...

        report.enqueue(7).result(timeout=30)

    Args:
        track: whether jobs without the option are tracked.
        keep_result: how long results of jobs without the option are kept, in seconds or as a timedelta; None: not at
            all.
        keep_state: how long the state of a job that has ended is kept, if its result is not.
        keep_waiting: how long the state of a job that waits or runs is kept after its last change. If it expires before
            the job runs, the job is untracked until then.
        result_max_bytes: maximum size of a result as JSON. A larger one is not stored, and the error handlers get
            `ResultNotStored`; the job has succeeded.
        finished_per_class: number of finished jobs to list for each class.

    Attributes:
        result_max_bytes: as given.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    name = "results"

    def __init__(
        self,
        *,
        track: bool = False,
        keep_result: float | timedelta | None = None,
        keep_state: float | timedelta = timedelta(days=1),
        keep_waiting: float | timedelta = timedelta(days=30),
        result_max_bytes: int = 1_048_576,
        finished_per_class: int = 1_000,
    ) -> None:
        self.result_max_bytes = store.size("result_max_bytes", result_max_bytes)
        self._rules = ResultSettings(
            track=track,
            keep_result_seconds=None if keep_result is None else store.life("keep_result", keep_result),
            keep_state_seconds=store.life("keep_state", keep_state),
            keep_waiting_seconds=store.life("keep_waiting", keep_waiting),
            result_max_bytes=self.result_max_bytes,
            finished_per_class=store.size("finished_per_class", finished_per_class),
        )

    def install(self, config: Config) -> None:
        """Add the options, the effects of pushes and runs, the service, the reader, the web tab and the check."""
        server = Installation.of(config)
        config.add_job_option(TRACK, store.check_track)
        config.add_job_option(KEEP_RESULT, store.check_keep_result)
        config.results = Reader.of
        runs = ResultRuns(server, self._rules)
        config.admissions.prepend(runs.admit)  # so that the outcomes of other admissions write a state too
        config.server_middleware.prepend(runs.run)
        config.services.append(runs.service)
        WithoutRuns(server, self._rules).install()
        config.add_web_tab(make_tab())
        config.doctor_checks.append(check_results)
