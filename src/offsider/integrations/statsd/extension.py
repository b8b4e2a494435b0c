"""The job metrics of Sidekiq Pro and Enterprise, sent by workers.

1. For each run, after its outcome: ``jobs.count``; on success ``jobs.success``, ``jobs.perform`` (milliseconds) and
   ``jobs.perform_dist``; on failure ``jobs.failure``.
2. For each job reclaimed from a dead process: ``jobs.recovered.fetch``; for each poison pill: ``jobs.poison``; for each
   expired job: ``jobs.expired``.
3. With ``retain_history``, from one process at a time: the sizes of queues and sets.

Metrics of jobs have the tags ``worker:`` (the job's class) and ``queue:``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError
from offsider.inspector.job_record import JobRecord
from offsider.inspector.stats import Stats
from offsider.integrations.statsd.client import StatsdClient, dogstatsd
from offsider.integrations.statsd.history import History
from offsider.runtime.context import JobContext
from offsider.runtime.events import ExecutionFinished, JobPoisoned, JobReclaimed, JobRemoved

#: Time for the last values to be sent.
_STOP_SECONDS = 1.0


class Statsd:
    """Extension that sends metrics over statsd; give it to ``config.use`` in ``configure``, for workers only.

    Args:
        client: called in each worker process when it starts, returns its client. Default: `dogstatsd`. The worker
            stops the client when it has stopped itself. Errors of the client do not fail jobs.
        options: called for each run, returns ``{"tags": ["tenant:acme"], "sample_rate": 0.1}``, or part of it. Its
            tags follow ours.
        retain_history: interval in seconds at which the sizes are sent; None: never.
        more_history: called after the sizes were sent, with the client and the `Stats`, to send more.

    Raises:
        ConfigurationError: ``client`` cannot be called, or ``retain_history`` is less than 1.
    """

    name = "statsd"

    def __init__(
        self,
        client: Callable[[], StatsdClient] = dogstatsd,
        *,
        options: Callable[[JobContext], Mapping[str, Any]] | None = None,
        retain_history: float | None = None,
        more_history: Callable[[StatsdClient, Stats], object] | None = None,
    ) -> None:
        if not callable(client):
            raise ConfigurationError(
                f"Statsd(client) expects a function that creates the client, such as lambda: dogstatsd('10.0.0.7'), "
                f"got {client!r}"
            )
        if retain_history is not None and not retain_history >= 1:
            raise ConfigurationError(f"Statsd(retain_history=…) expects seconds, at least 1, got {retain_history!r}")
        #: Cached, so that all threads share the client that ``startup`` creates, after a supervisor has forked.
        self._client = cache(client)
        self._options = options
        self._history_seconds = retain_history
        self._more_history = more_history

    def install(self, config: Config) -> None:
        """Add the event handlers and the service."""
        config.on("startup", self._start)
        config.on("exit", self._stop)  # at shutdown, jobs are still running
        config.on("execution_finished", self._finished)
        config.on("job_reclaimed", self._reclaimed)
        config.on("job_poisoned", self._poisoned)
        config.on("job_removed", self._removed)
        seconds = self._history_seconds
        if seconds is not None:
            config.add_service(lambda config: History(config, self._client(), seconds, self._more_history).service())

    def _start(self) -> None:
        self._client()

    def _stop(self) -> None:
        self._client().stop(timeout=_STOP_SECONDS)
        self._client.cache_clear()  # another worker of this program needs a running one

    def _finished(self, event: ExecutionFinished) -> None:
        job = event.job
        asked: Mapping[str, Any] = self._options(job) if self._options is not None else {}
        tags = _tags(job.name, job.queue, asked.get("tags") or ())
        rate = asked.get("sample_rate")
        send = self._client()
        send.increment("jobs.count", tags=tags, sample_rate=rate)
        if event.outcome == "succeeded":
            milliseconds = round(event.duration_seconds * 1000, 3)
            send.increment("jobs.success", tags=tags, sample_rate=rate)
            send.timing("jobs.perform", milliseconds, tags=tags, sample_rate=rate)
            send.distribution("jobs.perform_dist", milliseconds, tags=tags, sample_rate=rate)
        elif event.outcome in {"failed", "died"}:
            kind = type(event.error).__name__
            send.increment("jobs.failure", tags=[*tags, f"error_type:{kind}"], sample_rate=rate)

    def _reclaimed(self, event: JobReclaimed) -> None:
        self._client().increment("jobs.recovered.fetch", tags=_tags(JobRecord(event.raw).name, event.queue))

    def _removed(self, event: JobRemoved) -> None:
        if event.how == "expire":
            queue = event.where.removeprefix("queue:")
            self._client().increment("jobs.expired", tags=_tags(JobRecord(event.raw).name, queue))

    def _poisoned(self, event: JobPoisoned) -> None:
        self._client().increment("jobs.poison", tags=_tags(JobRecord(event.raw).name, event.queue))


def _tags(name: str, queue: str, more: Sequence[str] = ()) -> list[str]:
    return [f"worker:{name}", f"queue:{queue}", *more]
