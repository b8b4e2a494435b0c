"""The statsd client of the package ``datadog``, with options for workers."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, Protocol, cast

from offsider.integrations.missing import missing

#: Payloads of up to 8 KB that wait for a slow agent or name server. New ones are dropped.
_QUEUED_PAYLOADS = 1000


class StatsdClient(Protocol):
    """The methods of a client that `Statsd` calls. ``DogStatsd`` of the package ``datadog`` has them."""

    def increment(self, metric: str, value: float = 1, tags: Any = None, sample_rate: Any = None) -> object: ...
    def gauge(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object: ...
    def timing(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object: ...
    def distribution(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object: ...

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
