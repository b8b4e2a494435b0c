"""Metrics over statsd, with the names of Sidekiq Pro and Enterprise: ``config.use(Statsd())``.

1. For each run, after its outcome: ``jobs.count``; on success ``jobs.success``, ``jobs.perform`` (milliseconds) and
   ``jobs.perform_dist``; on failure ``jobs.failure``.
2. For each job reclaimed from a dead process: ``jobs.recovered.fetch``; for each poison pill: ``jobs.poison``; for each
   expired job: ``jobs.expired``.
3. With ``retain_history``, from one process at a time: the sizes of queues and sets.

Metrics of jobs have the tags ``worker:`` (the job's class) and ``queue:``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisUnavailable
from offsider.inspector.job_record import JobRecord
from offsider.inspector.stats import Stats
from offsider.integrations import missing
from offsider.runtime.context import JobContext
from offsider.runtime.events import ExecutionFinished, JobPoisoned, JobReclaimed, JobRemoved
from offsider.runtime.service import Loop
from offsider.storage.leases import hold_lease
from offsider.worker.alive.ownership import new_identity

__all__ = ["Statsd", "StatsdClient", "dogstatsd"]


#: Payloads of up to 8 KB that wait for a slow agent or name server. New ones are dropped.
_QUEUED_PAYLOADS = 1000


class StatsdClient(Protocol):
    """The methods of a client that `Statsd` calls. ``DogStatsd`` of the package ``datadog`` has them."""

    def increment(self, metric: str, value: float = 1, tags: Any = None, sample_rate: Any = None) -> object:
        """Add to a counter."""
        ...

    def gauge(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object:
        """Set a gauge to a value."""
        ...

    def timing(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object:
        """Record a duration in milliseconds."""
        ...

    def distribution(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object:
        """Record a value of a distribution, which the server aggregates."""
        ...

    def stop(self, timeout: float | None = None) -> object:
        """Send the buffered values, for up to ``timeout`` seconds."""


def dogstatsd(host: str | None = None, port: int | None = None, **options: Any) -> StatsdClient:
    """Create a ``DogStatsd`` of the package ``datadog`` that sends in a thread, so that it never blocks a job.

    Args:
        host, port: address of the agent. Default: the environment (``DD_DOGSTATSD_URL``, or ``DD_AGENT_HOST`` and
            ``DD_DOGSTATSD_PORT``), else localhost:8125.
        options: other options of ``DogStatsd``, such as ``socket_path``, ``constant_tags`` or ``namespace``, the
            prefix of the metric names (default: ``sidekiq``).

    Raises:
        ConfigurationError: the package is not installed.
    """
    try:
        package: Any = import_module("datadog.dogstatsd")  # takes 70 ms: only workers need it
    except ImportError as error:
        raise missing("offsider.integrations.statsd", "statsd") from error
    defaults = {
        "namespace": "sidekiq",
        "disable_buffering": False,
        "disable_background_sender": False,
        "sender_queue_size": _QUEUED_PAYLOADS,
        "disable_telemetry": True,
        # Else a job that forks waits for the threads of the client, and its child starts them again.
        "track_instance": False,
    }
    log = logging.getLogger("datadog.dogstatsd")
    if log.level == logging.NOTSET:
        log.setLevel(logging.ERROR)  # a warning for each payload, while the agent is away
    return cast(StatsdClient, package.DogStatsd(host, port, **(defaults | options)))


_LEASE = "history"
#: After this many missed intervals another process takes over the lease.
_MISSED_INTERVALS = 3


class HistorySender:
    """Sends gauges: ``processed``, ``failures``, ``enqueued``, ``retries``, ``dead``, ``scheduled``, ``busy``, each
    queue's ``queue.size`` and ``queue.latency`` (seconds, tag ``queue:``), and ``leader`` (1, tag ``process:``).

    Args:
        config: the configuration whose server is read.
        client: client that sends the gauges.
        seconds: interval.
        more: called at the end of each interval.
    """

    def __init__(
        self, config: Config, client: StatsdClient, seconds: float, more: Callable[[StatsdClient, Stats], object] | None
    ) -> None:
        self._server = Installation.of(config)
        self._client = client
        self._seconds = seconds
        self._more = more
        self._holder = new_identity()

    def service(self) -> Loop:
        """Return the thread that sends the gauges."""
        return Loop("offsider-history", self.send, on_error=self._server.config.handle_error)

    def send(self) -> float:
        """Send the gauges if this process holds the lease, and return the seconds until the next call."""
        # The worker itself logs that the server does not respond.
        with suppress(RedisUnavailable):
            if hold_lease(self._server.redis, _LEASE, self._holder, _MISSED_INTERVALS * self._seconds):
                self._send(Stats.read(self._server))
        return self._seconds

    def _send(self, stats: Stats) -> None:
        send = self._client.gauge
        send("processed", stats.processed)
        send("failures", stats.failed)
        send("enqueued", stats.enqueued)
        send("retries", stats.retries)
        send("dead", stats.dead)
        send("scheduled", stats.scheduled)
        send("busy", stats.busy)
        for queue in stats.queue_summaries:
            tags = [f"queue:{queue.name}"]
            send("queue.size", queue.size, tags=tags)
            send("queue.latency", queue.latency_seconds, tags=tags)
        send("leader", 1, tags=[f"process:{self._holder}"])
        if self._more is not None:
            self._more(self._client, stats)


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
        #: Cached, so that all threads share the client that ``startup`` creates, after the fork server has forked.
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
            config.services.append(
                lambda config: HistorySender(config, self._client(), seconds, self._more_history).service()
            )

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
        self._count("jobs.recovered.fetch", event.raw, event.queue)

    def _removed(self, event: JobRemoved) -> None:
        if event.how == "expire":
            self._count("jobs.expired", event.raw, event.where.removeprefix("queue:"))

    def _poisoned(self, event: JobPoisoned) -> None:
        self._count("jobs.poison", event.raw, event.queue)

    def _count(self, metric: str, raw: bytes, queue: str) -> None:
        self._client().increment(metric, tags=_tags(JobRecord(raw).name, queue))


def _tags(name: str, queue: str, more: Sequence[str] = ()) -> list[str]:
    return [f"worker:{name}", f"queue:{queue}", *more]
