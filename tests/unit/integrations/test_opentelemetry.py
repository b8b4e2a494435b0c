"""Spans and metrics of pushes and runs, read from an in-memory exporter."""

import sys

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError, Discard, Reschedule, Shutdown, Skip, Waiting
from offsider.integrations.opentelemetry import OpenTelemetry
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Push

JID = "0" * 24


class Traced:
    """A configuration with the extension, and the spans it created."""

    def __init__(self, **options):
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader])
        self.extension = OpenTelemetry(tracer_provider=self.provider, meter_provider=meters, **options)
        self.config = Config()
        self.config.use(self.extension)

    def push(self, reason="push", then=lambda push: push, **fields):
        payload = {"class": "Mail", "args": [], "jid": JID, "queue": "low", **fields}
        self.config.client_middleware.run(Push(payload, reason), then)
        return payload

    def run(self, payload, then=lambda job: None):
        return self.config.server_middleware.run(JobContext(payload, payload["queue"]), then)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def points(self, name):
        data = self.reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [point for metric in metrics for point in metric.data.data_points]


@pytest.fixture
def traced():
    return Traced()


def raising(error):
    def job(_):
        raise error

    return job


def test_an_active_job_is_identified_by_its_wrapped_class(traced):
    traced.run(traced.push(**{"class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "MailJob"}))
    assert [span.attributes["messaging.sidekiq.job_class"] for span in traced.spans] == ["MailJob"] * 2


def test_a_run_is_linked_to_its_push_and_both_name_job_and_queue(traced):
    payload = traced.push()
    traced.run(payload)
    sent, ran = traced.spans
    assert (sent.name, sent.kind) == ("send low", SpanKind.PRODUCER)
    assert (ran.name, ran.kind) == ("process low", SpanKind.CONSUMER)
    assert [link.context.span_id for link in ran.links] == [sent.context.span_id]
    assert ran.parent is None
    assert ran.context.trace_id != sent.context.trace_id
    for span, operation in ((sent, "send"), (ran, "process")):
        assert span.attributes["messaging.system"] == "sidekiq"
        assert span.attributes["messaging.destination.name"] == "low"
        assert span.attributes["messaging.operation.name"] == operation
        assert span.attributes["messaging.operation.type"] == operation
        assert span.attributes["messaging.message.id"] == JID
        assert span.attributes["messaging.sidekiq.job_class"] == "Mail"
        assert span.attributes["messaging.client.id"]
        assert span.status.status_code is StatusCode.UNSET


def test_a_run_may_be_the_child_of_its_push():
    traced = Traced(relation="child")
    payload = traced.push()
    traced.run(payload)
    sent, ran = traced.spans
    assert (ran.parent.span_id, ran.context.trace_id) == (sent.context.span_id, sent.context.trace_id)
    assert not ran.links


def test_the_context_travels_in_the_payload(traced):
    payload = traced.push()
    sent = traced.spans[0].context
    assert payload["traceparent"].startswith(f"00-{sent.trace_id:032x}-{sent.span_id:016x}-")
    assert "tracestate" not in payload
    kept = traced.push(traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01", tracestate="a=b")
    traced.run(kept | {"tracestate": "a=b"})
    assert traced.spans[-1].links[0].context.trace_state.get("a") == "b"


@pytest.mark.parametrize("reason", ["schedule", "retry"])
def test_moving_a_job_to_its_queue_is_not_a_push(traced, reason):
    payload = traced.push(reason=reason, traceparent="kept")
    assert payload["traceparent"] == "kept"
    assert traced.spans == ()


def test_a_push_stopped_by_middleware_sends_no_message(traced):
    traced.push(then=lambda push: None)
    assert [span.name for span in traced.spans] == ["send low"]
    assert traced.points("messaging.client.sent.messages") == []


@pytest.mark.parametrize("relation", ["link", "child"])
@pytest.mark.parametrize("odd", [{}, {"traceparent": "nonsense"}])
def test_inside_of_another_span_it_belongs_to_that_when_its_push_is_unknown(relation, odd):
    traced = Traced(relation=relation)
    with traced.provider.get_tracer("test").start_as_current_span("request") as request:
        traced.run({"class": "Mail", "args": [], "jid": JID, "queue": "low", **odd})
    ran = traced.spans[0]
    assert (ran.parent.span_id, len(ran.links)) == (request.get_span_context().span_id, 0)


def test_a_run_inside_of_another_span_belongs_to_it(traced):
    with traced.provider.get_tracer("test").start_as_current_span("request") as request:
        traced.run(traced.push())
    assert [span.parent.span_id for span in traced.spans[:2]] == [request.get_span_context().span_id] * 2


def test_a_failure_is_recorded_with_its_class(traced):
    with pytest.raises(LookupError):
        traced.run(traced.push(), raising(LookupError("gone")))
    ran = traced.spans[1]
    assert ran.status.status_code is StatusCode.ERROR
    assert ran.attributes["error.type"] == "LookupError"
    assert ran.attributes["offsider.outcome"] == "failed"
    assert ran.events[0].attributes["exception.message"] == "gone"


def test_a_failed_push_is_recorded(traced):
    with pytest.raises(ValueError, match="no"):
        traced.push(then=raising(ValueError("no")))
    assert traced.spans[0].attributes["error.type"] == "ValueError"


def caused_by_a_stop():
    error = ValueError("in a finally block")
    error.__cause__ = Shutdown()
    return error


@pytest.mark.parametrize(
    "signal,outcome",
    [
        (Skip(), "skipped"),
        (Discard("done"), "discarded"),
        (Reschedule(5), "rescheduled"),
        (Waiting(5, "sleeps"), "rescheduled"),
        (Shutdown(), "interrupted"),
        (caused_by_a_stop(), "interrupted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_outcomes_other_than_failures_are_not_errors(traced, signal, outcome):
    with pytest.raises(type(signal)):
        traced.run(traced.push(), raising(signal))
    ran = traced.spans[1]
    assert ran.status.status_code is StatusCode.UNSET
    assert ran.attributes["offsider.outcome"] == outcome
    assert "error.type" not in ran.attributes
    assert not ran.events


def test_pushes_and_runs_are_counted_and_timed_in_seconds(traced):
    traced.run(traced.push())
    with pytest.raises(LookupError):
        traced.run(traced.push(), raising(LookupError()))
    (sent,) = traced.points("messaging.client.sent.messages")
    assert sent.value == 2
    assert {
        point.attributes.get("error.type"): point.value for point in traced.points("messaging.client.consumed.messages")
    } == {
        None: 1,
        "LookupError": 1,
    }
    (pushes,) = traced.points("messaging.client.operation.duration")
    assert pushes.count == 2
    runs = traced.points("messaging.process.duration")
    assert sum(point.count for point in runs) == 2
    assert runs[0].explicit_bounds[0] == 0.005
    assert 0 < sum(point.sum for point in runs) < 1
    attributes = dict(runs[0].attributes)
    assert attributes["messaging.destination.name"] == "low"
    assert "messaging.message.id" not in attributes


def test_buffered_data_is_sent_when_the_worker_ends(traced):
    flushed = []
    traced.provider.force_flush = lambda: flushed.append("spans")
    traced.config.events.emit("exit")
    assert flushed == ["spans"]


def test_without_an_sdk_nothing_happens():
    config = Config()
    config.use(OpenTelemetry())
    payload = {"class": "Mail", "args": [], "jid": JID, "queue": "low"}
    assert config.client_middleware.run(Push(payload), lambda push: push) is not None
    assert "traceparent" not in payload
    assert config.server_middleware.run(JobContext(payload, "low"), lambda job: "ran") == "ran"
    config.events.emit("exit")


def test_a_missing_library_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "offsider.integrations.opentelemetry")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[otel\]"'):
        __import__("offsider.integrations.opentelemetry")
