"""The job metrics of Sidekiq Pro and Enterprise, sent by workers.

1. For each run, after its outcome: ``jobs.count``; on success ``jobs.success``, ``jobs.perform`` (milliseconds) and
   ``jobs.perform_dist``; on failure ``jobs.failure``.
2. For each job reclaimed from a dead process: ``jobs.recovered.fetch``; for each poison pill: ``jobs.poison``.
3. With ``retain_history``, from one process at a time: the sizes of queues and sets.

Metrics of jobs have the tags ``worker:`` (the job's class) and ``queue:``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from offsider.core.errors import ConfigurationError
from offsider.inspector.job_record import JobRecord
from offsider.integrations.statsd.client import DogStatsd, StatsdClient
from offsider.integrations.statsd.history import History

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.inspector.stats import Stats
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import ExecutionFinished, JobPoisoned, JobReclaimed


class Statsd:
    """Extension that sends metrics over statsd; give it to ``config.use`` in ``configure``, for workers only.

    Args:
        client: default: a `DogStatsd` for 127.0.0.1:8125. Its errors do not fail jobs.
        options: called for each run, returns ``{"tags": ["tenant:acme"], "sample_rate": 0.1}``, or part of it. Its
            tags follow ours.
        retain_history: interval in seconds at which the sizes are sent; None: never.
        more_history: called after the sizes were sent, with the client and the `Stats`, to send more.

    Raises:
        ConfigurationError: ``retain_history`` is less than 1.
    """

    name = "statsd"

    def __init__(
        self,
        client: StatsdClient | None = None,
        *,
        options: Callable[[JobContext], Mapping[str, Any]] | None = None,
        retain_history: float | None = None,
        more_history: Callable[[StatsdClient, Stats], object] | None = None,
    ) -> None:
        if retain_history is not None and not retain_history >= 1:
            raise ConfigurationError(f"Statsd(retain_history=…) expects seconds, at least 1, got {retain_history!r}")
        self._client: StatsdClient = DogStatsd() if client is None else client
        self._options = options
        self._history_seconds = retain_history
        self._more_history = more_history

    def install(self, config: Config) -> None:
        """Add the event handlers and the service."""
        if isinstance(self._client, DogStatsd):
            config.on("startup", self._client.open)
        config.on("execution_finished", self._finished)
        config.on("job_reclaimed", self._reclaimed)
        config.on("job_poisoned", self._poisoned)
        seconds = self._history_seconds
        if seconds is not None:
            config.add_service(lambda config: History(config, self._client, seconds, self._more_history).service())

    def _finished(self, event: ExecutionFinished) -> None:
        job = event.job
        asked: Mapping[str, Any] = self._options(job) if self._options is not None else {}
        tags = _tags(job.name, job.queue, asked.get("tags") or ())
        rate = asked.get("sample_rate")
        send = self._client
        send.increment("jobs.count", tags=tags, sample_rate=rate)
        if event.outcome == "succeeded":
            milliseconds = event.duration_seconds * 1000
            send.increment("jobs.success", tags=tags, sample_rate=rate)
            send.timing("jobs.perform", milliseconds, tags=tags, sample_rate=rate)
            send.distribution("jobs.perform_dist", milliseconds, tags=tags, sample_rate=rate)
        elif event.outcome in {"failed", "died"}:
            kind = type(event.error).__name__
            send.increment("jobs.failure", tags=[*tags, f"error_type:{kind}"], sample_rate=rate)

    def _reclaimed(self, event: JobReclaimed) -> None:
        self._client.increment("jobs.recovered.fetch", tags=_tags(JobRecord(event.raw).name, event.queue))

    def _poisoned(self, event: JobPoisoned) -> None:
        self._client.increment("jobs.poison", tags=_tags(JobRecord(event.raw).name, event.queue))


def _tags(name: str, queue: str, more: Sequence[str] = ()) -> list[str]:
    return [f"worker:{name}", f"queue:{queue}", *more]
