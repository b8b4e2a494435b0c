"""What Sidekiq Pro and Enterprise tell of jobs, sent by workers as it happens.

1. Of each run, when its outcome is settled: ``jobs.count``; ``jobs.success``, ``jobs.perform`` (milliseconds) and
   ``jobs.perform_dist`` when it succeeded; ``jobs.failure`` when it failed.
2. Of each job that was got back from a dead process: ``jobs.recovered.fetch``; of one that processes die of:
   ``jobs.poison``.
3. With ``retain_history``, from one process at a time: the size of everything.

All of it has the tags ``worker:`` (the job's class) and ``queue:``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from offsider.core.errors import ConfigurationError
from offsider.inspector.job_record import JobRecord
from offsider.integrations.statsd.client import DogStatsd, StatsdClient
from offsider.integrations.statsd.history import History

if TYPE_CHECKING:
    from offsider.inspector.stats import Stats
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.wiring.events import ExecutionFinished, JobPoisoned, JobReclaimed


class Statsd:
    """Extension that sends metrics over statsd; give it to ``config.use`` in ``configure``, for workers only.

    Args:
        client: where they go; by default a `DogStatsd` at 127.0.0.1:8125. Its errors fail no job.
        options: asked for each run: ``{"tags": ["tenant:acme"], "sample_rate": 0.1}``, or part of it. Its tags come
            behind ours.
        retain_history: seconds between two looks at the sizes of everything; None: nobody looks.
        more_history: called after each of these looks with the client and the `Stats`, to send more.

    Raises:
        ConfigurationError: ``retain_history`` is no time.
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
        """Listen to what happens to jobs."""
        config.on("execution_finished", self._finished)
        config.on("job_reclaimed", self._reclaimed)
        config.on("job_poisoned", self._poisoned)
        seconds = self._history_seconds
        if seconds is not None:
            config.add_service(lambda config: History(config, self._client, seconds, self._more_history).service())

    def _finished(self, news: ExecutionFinished) -> None:
        job = news.job
        asked: Mapping[str, Any] = self._options(job) if self._options is not None else {}
        tags = _tags(job.name, job.queue, asked.get("tags") or ())
        rate = asked.get("sample_rate")
        send = self._client
        send.increment("jobs.count", tags=tags, sample_rate=rate)
        if news.outcome == "succeeded":
            milliseconds = news.duration_seconds * 1000
            send.increment("jobs.success", tags=tags, sample_rate=rate)
            send.timing("jobs.perform", milliseconds, tags=tags, sample_rate=rate)
            send.distribution("jobs.perform_dist", milliseconds, tags=tags, sample_rate=rate)
        elif news.outcome in {"failed", "died"}:
            kind = type(news.error).__name__
            send.increment("jobs.failure", tags=[*tags, f"error_type:{kind}"], sample_rate=rate)

    def _reclaimed(self, news: JobReclaimed) -> None:
        self._client.increment("jobs.recovered.fetch", tags=_tags(JobRecord(news.raw).name, news.queue))

    def _poisoned(self, news: JobPoisoned) -> None:
        self._client.increment("jobs.poison", tags=_tags(JobRecord(news.raw).name, news.queue))


def _tags(name: str, queue: str, more: Sequence[str] = ()) -> list[str]:
    return [f"worker:{name}", f"queue:{queue}", *more]
