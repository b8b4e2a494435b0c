"""The job log: one line when a job starts and one when it ends, at INFO.

Sidekiq's words: ``start``, ``done``, ``fail``. Which job a line belongs to is added by the formatters, to
every line that is logged while it runs. A payload's ``log_level`` holds for its own run alone.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsider.wiring.logs import job_level, logger
from offsider.worker.outcome import Discarded, Failed, Interrupted, Outcome, Rescheduled, Skipped

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext


class JobLogger:
    """Writes the job log of one worker; ``log.job_log = false`` switches these lines off."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._silent = not config.log.job_log

    @contextmanager
    def around(self, job: JobContext) -> Generator[None]:
        """The job's own log level, and its line ``start``."""
        with job_level(job.payload.get("log_level")):
            self._write("start")
            yield

    def ended(self, outcome: Outcome, duration_seconds: float) -> None:
        """The line of the end."""
        fields: dict[str, object] = {"elapsed": round(duration_seconds, 3)}
        match outcome:
            case Rescheduled(delay_seconds):
                fields["again_in"] = delay_seconds
            case Discarded(error):
                fields["discarded"] = str(error) or True
            case Skipped(reason):
                fields["skipped"] = reason or True
            case _:
                pass
        self._write("fail" if isinstance(outcome, (Failed, Interrupted)) else "done", fields)

    def _write(self, word: str, fields: Mapping[str, object] = MappingProxyType({})) -> None:
        if self._silent:
            return
        try:
            logger.info(word, extra={"fields": fields})
        except Exception as error:  # noqa: BLE001 - a filter or handler of the application that breaks is no job's fault
            self._config.handle_error(error, {"context": "the job log"})
