"""Traces and errors of a real worker: the data it exports, and their links."""

from __future__ import annotations

import json
import textwrap

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from offsider.client import Client
from offsider.core.payload import decode
from offsider.integrations.opentelemetry import OpenTelemetry
from tests.process.stored import private, waiting
from tests.waiting import wait_for

JOBS = """
    from offsider import Skip, job

    @job(name="Plain", retry=False)
    def plain(fail: bool = False) -> None:
        tell("Plain")
        if fail:
            raise LookupError("gone")

    @job(name="Async", retry=False)
    async def coroutine() -> None:
        import asyncio
        await asyncio.sleep(0)
        tell("Async")

    @job(name="Skips")
    def skips() -> None:
        raise Skip("nothing to do")

    @job(name="Parent", retry=False)
    def parent() -> None:
        plain.enqueue(False)
"""

TRACED = """
    import json, sys
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from offsider.integrations.opentelemetry import OpenTelemetry

    class ToFile(SpanExporter):
        def export(self, spans):
            with open("spans", "a") as file:
                for span in spans:
                    file.write(json.dumps(json.loads(span.to_json())) + "\\n")
            return SpanExportResult.SUCCESS

    def tell(name):  # the span that is current in the job itself
        trace.get_current_span().set_attribute("told.by", name)

    def configure(config):
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(ToFile(), schedule_delay_millis=60_000))
        trace.set_tracer_provider(provider)
        config.use(OpenTelemetry(relation=RELATION))
"""


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def client(config, exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    config.use(OpenTelemetry(tracer_provider=provider))
    return Client(config)


def ran(workers, stored, number, text, *options):
    """Run waiting jobs with a worker of this application until this many are done, then stop it."""
    worker = workers.start(*options, text=text)
    wait_for(lambda: stored.llen("queue:default") == 0)
    worker.until_says("done", times=number)
    return worker.stopped()


def application(text, **names):
    constants = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    return constants + textwrap.dedent(text) + textwrap.dedent(JOBS)


def test_a_run_in_another_process_is_linked_to_its_push(workers, client, exporter, stored, tmp_path):
    client.push({"class": "Plain", "args": [False]})
    client.push({"class": "Async", "args": []})
    assert decode(stored.lindex("queue:default", 0))["traceparent"]
    ran(workers, stored, 2, application(TRACED, RELATION="link"))
    sent = {span.attributes["messaging.sidekiq.job_class"]: span for span in exporter.get_finished_spans()}
    spans = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    assert {span["attributes"]["told.by"] for span in spans} == {"Plain", "Async"}
    for span in spans:
        push = sent[span["attributes"]["messaging.sidekiq.job_class"]]
        assert (span["name"], span["kind"]) == ("process default", "SpanKind.CONSUMER")
        assert span["attributes"]["messaging.message.id"] == push.attributes["messaging.message.id"]
        assert span["attributes"]["messaging.client.id"] != push.attributes["messaging.client.id"]
        pushed = f"0x{push.context.span_id:016x}"
        assert [link["context"]["span_id"] for link in span["links"]] == [pushed]
        assert span["parent_id"] is None


def test_a_job_that_a_job_pushes_belongs_to_its_run(workers, client, stored, tmp_path):
    client.push({"class": "Parent", "args": []})
    ran(workers, stored, 2, application(TRACED, RELATION="child"))
    spans = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    by_name = {(span["name"], span["attributes"]["messaging.sidekiq.job_class"]): span for span in spans}
    parent, sent, child = (
        by_name[key] for key in (("process default", "Parent"), ("send default", "Plain"), ("process default", "Plain"))
    )
    assert sent["parent_id"] == parent["context"]["span_id"]
    assert child["parent_id"] == sent["context"]["span_id"]


REPORTED = """
    import json
    import sentry_sdk
    from sentry_sdk.transport import Transport
    from offsider.integrations.sentry import Sentry

    class ToFile(Transport):
        def capture_envelope(self, envelope):
            with open("events", "a") as file:
                file.writelines(json.dumps(item.payload.json) + "\\n" for item in envelope.items)

    def tell(name):
        sentry_sdk.set_tag("told.by", name)

    def configure(config):
        sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=ToFile, traces_sample_rate=1.0)
        config.use(Sentry())
"""


def test_sentry_gets_each_failure_once_and_nothing_else(workers, client, stored, tmp_path):
    for name, args in (("Plain", [True]), ("Async", []), ("Skips", []), ("Unknown", [])):
        client.push({"class": name, "args": args, "retry": False})
    worker = workers.start(text=application(REPORTED), environ={"OFFSIDER_WORKER_STRANDED_DAYS": "0"})
    wait_for(lambda: waiting(stored) == private(stored) == [])
    worker.stopped()
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    errors = [event for event in events if "exception" in event]
    assert sorted(event["tags"]["job"] for event in errors) == ["Plain", "Unknown"]
    assert {event["exception"]["values"][-1]["type"] for event in errors} == {"LookupError", "UnknownJob"}
    transactions = {event["transaction"]: event for event in events if event.get("type") == "transaction"}
    assert set(transactions) == {"Plain", "Async", "Skips"}
    assert transactions["Async"]["tags"]["told.by"] == "Async"
    assert transactions["Skips"]["contexts"]["trace"]["status"] == "ok"
    assert not [event for event in events if "exception" not in event and event.get("type") != "transaction"]
