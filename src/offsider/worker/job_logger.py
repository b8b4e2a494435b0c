"""The job log: one line when a job starts and one when it ends, at INFO.

Sidekiq's words: ``start``, ``done``, ``fail``. Which job a line belongs to is added by the formatters, to
every line that is logged while it runs. A payload's ``log_level`` holds for its own run alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsider.wiring.logs import job_level, logger, write_info
from offsider.worker.outcome import Discarded, Failed, Interrupted, Outcome, Rescheduled, Skipped, Succeeded

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})


class JobLogger:
    """Writes the job log of one worker; ``log.job_log = false`` switches these lines off."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._silent = not config.log.job_log

    def wants(self, job: JobContext) -> bool:
        """Whether a run of this job has to go through `around`: it is logged, or has a level of its own."""
        return "log_level" in job.payload or not (self._silent or not logger.isEnabledFor(logging.INFO))

    def around(self, job: JobContext, run: Callable[[JobContext], tuple[Outcome, float]]) -> tuple[Outcome, float]:
        """Run a job at its own log level, with a line before and one after.

        Args:
            run: answers the outcome and how many seconds it took.
        """
        level = job.payload.get("log_level")
        if level is None:
            return self._between_lines(job, run)
        with job_level(level):
            return self._between_lines(job, run)

    def _between_lines(
        self, job: JobContext, run: Callable[[JobContext], tuple[Outcome, float]]
    ) -> tuple[Outcome, float]:
        self._write("start", _NO_FIELDS)
        outcome, duration_seconds = run(job)
        fields: dict[str, object] = {"elapsed": round(duration_seconds, 3)}
        if type(outcome) is not Succeeded:
            fields |= _details(outcome)
        self._write("fail" if isinstance(outcome, (Failed, Interrupted)) else "done", fields)
        return outcome, duration_seconds

    def _write(self, word: str, fields: Mapping[str, object]) -> None:
        if self._silent:
            return
        try:
            write_info(word, fields)
        except Exception as error:  # noqa: BLE001 - a filter or handler of the application that breaks is no job's fault
            self._config.handle_error(error, {"context": "the job log"})


def _details(outcome: Outcome) -> Mapping[str, object]:
    match outcome:
        case Rescheduled(delay_seconds):
            return {"again_in": delay_seconds}
        case Discarded(error):
            return {"discarded": str(error) or True}
        case Skipped(reason):
            return {"skipped": reason or True}
        case _:
            return _NO_FIELDS
