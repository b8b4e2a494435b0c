"""Traces and metrics through OpenTelemetry: ``config.use(OpenTelemetry())`` in workers and in clients.

1. A push is a span ``send <queue>``; the payload carries its context as ``traceparent`` and ``tracestate``.
2. A run is a span ``process <queue>``, linked to that push, or its child.
3. Only ``opentelemetry-api`` is needed; the SDK that the program configures exports spans and metrics.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

from offsider.config.config import Config
from offsider.core.error_text import class_of
from offsider.core.errors import Discard, Reschedule, Shutdown, Skip, Waiting
from offsider.core.payload import shown_class
from offsider.integrations import missing
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware, Push
from offsider.worker.run.interrupt import caused_by

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise missing("offsider.integrations.opentelemetry", "otel") from error

SYSTEM = "sidekiq"
FIELDS = ("traceparent", "tracestate")
#: Bounds of the histograms in seconds: OpenTelemetry's for messaging, and longer ones for jobs.
BOUNDS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 60.0, 300.0, 600.0)

_HOST = socket.gethostname()
#: Attributes that would create one time series per job.
_OF_ONE_JOB = frozenset({"messaging.message.id", "messaging.client.id"})


class OpenTelemetry:
    """Extension that records spans and metrics of pushes and runs.

    Args:
        tracer_provider: default: the global one.
        meter_provider: default: the global one.
        relation: relation of a run's span to its push: ``"link"`` for one trace per run, or ``"child"`` for one trace
            with the push.
    """

    name = "opentelemetry"

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        relation: Literal["link", "child"] = "link",
    ) -> None:
        self._providers = (tracer_provider, meter_provider)
        self._is_child = relation == "child"
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("offsider", tracer_provider=tracer_provider)
        meter = metrics.get_meter("offsider", meter_provider=meter_provider)
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs pushed.")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", "{message}", "Jobs run.")
        self._push_seconds = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Preparing a push, middleware included.",
            explicit_bucket_boundaries_advisory=BOUNDS_SECONDS,
        )
        self._run_seconds = meter.create_histogram(
            "messaging.process.duration", "s", "Runs of jobs.", explicit_bucket_boundaries_advisory=BOUNDS_SECONDS
        )

    def install(self, config: Config) -> None:
        """Install outside of all other middleware in both chains."""
        config.client_middleware.prepend(self.send)
        config.server_middleware.prepend(self.process)
        config.on("exit", self._flush)

    def send(self, push: Push) -> Middleware:
        """Client middleware: the span of a push. Later moves of a job, for example a retry, get no span."""
        if push.reason != "push":
            yield
            return
        payload = cast("dict[str, Any]", push.payload)
        attributes = _attributes("send", payload, payload.get("queue", "default"))
        with (
            self._tracer.start_as_current_span(
                f"send {payload.get('queue', 'default')}",
                kind=SpanKind.PRODUCER,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            self._measured(self._push_seconds, attributes, span) as labels,
        ):
            self._propagator.inject(payload)
            if (yield) is not None:
                self._sent.add(1, labels)

    def process(self, job: JobContext) -> Middleware:
        """Server middleware: the span of a run."""
        payload = cast("dict[str, Any]", job.payload)
        attributes = _attributes("process", payload, job.queue)
        carrier = {key: payload[key] for key in FIELDS if isinstance(payload.get(key), str)}
        pushed = self._propagator.extract(carrier, Context())
        sender = trace.get_current_span(pushed).get_span_context()
        with (
            self._tracer.start_as_current_span(
                f"process {job.queue}",
                context=pushed if sender.is_valid and self._is_child else None,
                kind=SpanKind.CONSUMER,
                attributes={**attributes, "offsider.attempt": job.attempt},
                links=[Link(sender)] if sender.is_valid and not self._is_child else None,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            self._measured(self._run_seconds, attributes, span, self._consumed),
        ):
            yield

    @contextmanager
    def _measured(
        self,
        seconds: metrics.Histogram,
        attributes: Mapping[str, str],
        span: Span,
        counter: metrics.Counter | None = None,
    ) -> Generator[dict[str, str]]:
        """Set the outcome of the span, and record the duration of the block."""
        labels = {name: value for name, value in attributes.items() if name not in _OF_ONE_JOB}
        started = time.perf_counter()
        try:
            yield labels
        except BaseException as error:
            outcome = _outcome(error)
            span.set_attribute("offsider.outcome", outcome)
            if outcome == "failed":
                labels["error.type"] = class_of(error)
                span.set_attribute("error.type", labels["error.type"])
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            seconds.record(time.perf_counter() - started, labels)
            if counter is not None:
                counter.add(1, labels)

    def _flush(self) -> None:
        """Flush the SDK before the process exits."""
        tracer_provider, meter_provider = self._providers
        for provider in (
            tracer_provider or trace.get_tracer_provider(),
            meter_provider or metrics.get_meter_provider(),
        ):
            flush = getattr(provider, "force_flush", None)  # in the SDK only, not in the API
            if flush is not None:
                flush()


def _attributes(operation: str, payload: Mapping[str, Any], queue: str) -> dict[str, str]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.message.id": str(payload.get("jid", "")),
        "messaging.client.id": f"{_HOST}:{os.getpid()}",
        "messaging.sidekiq.job_class": shown_class(payload),
    }


def _outcome(error: BaseException) -> str:
    match error:
        case Skip():
            return "skipped"
        case Discard():
            return "discarded"
        case Reschedule() | Waiting():
            return "rescheduled"
        case _:
            return "interrupted" if caused_by(Shutdown, error) else "failed"
