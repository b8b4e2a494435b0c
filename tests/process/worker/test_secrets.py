"""Arguments reach no log, no Sentry and no trace: secrets are planted in them, and all that is written is searched.

Error handlers and death handlers still get whole payloads, as in Sidekiq.
"""

from __future__ import annotations

import pytest

from offsider.worker.run.interrupt import OBSTACLE
from tests.docs.snippets import ROOT, snippets
from tests.process.stored import push, push_raw, sorted_set
from tests.waiting import wait_for

BY_POSITION, BY_NAME = "pa55-by-position", "pa55-by-name"
SECRETS = (BY_POSITION, BY_NAME)

APPLICATION = """
    import json, time
    import sentry_sdk
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
    from sentry_sdk.transport import Transport
    from offsider import Config, Discard, Job, Reschedule, Skip, current_job, job
    from offsider.ext.concurrency_limits import ConcurrencyLimits
    from offsider.ext.unique import Unique
    from offsider.integrations.opentelemetry import OpenTelemetry
    from offsider.integrations.sentry import Sentry
    from offsider.integrations.statsd import Statsd
    from tests.process.ledger import note

    def write(file, told):
        with open(file, "a") as out:
            out.write(json.dumps(told, default=str) + "\\n")

    class ToFile(Transport):
        def capture_envelope(self, envelope):
            for item in envelope.items:
                write("sentry", item.payload.json)

    class Spans(SpanExporter):
        def export(self, spans):
            for span in spans:
                write("spans", json.loads(span.to_json()))
            return SpanExportResult.SUCCESS

    class ToStatsd:
        def __getattr__(self, verb):
            return lambda *args, **kwargs: write("statsd", [verb, args, kwargs])

    def configure(config):
        sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=ToFile, traces_sample_rate=1.0,
                        attach_stacktrace=True, enable_logs=True, **SENTRY)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(Spans()))
        config.use(Sentry())
        config.use(OpenTelemetry(tracer_provider=provider))
        config.use(Statsd(ToStatsd))
        config.use(ConcurrencyLimits(limits={"Limited": -1}))
        config.use(Unique())
        config.client.strict_args = "warn"
        config.client.large_payload_bytes = 1000
        config.error_handlers.append(lambda error, context: note("error", word=repr(context)))
        config.death_handlers.append(lambda payload, error: note("death", word=repr(payload)))
        config.death_handlers.append(lambda payload, error: 1 / 0)
        HOOK

    @job(name="Success")
    def success(password, *, token): ...

    @job(name="Failure")
    def failure(password, *, token):
        raise LookupError("gone")

    @job(name="Death", retry=0)
    def death(password, *, token):
        copy = password
        raise LookupError("gone")

    @job(name="Async", retry=0)
    async def asynchronous(password, *, token):
        raise LookupError("gone")

    @job(name="OddRetry", retry_in=lambda *given: 1 / 0)
    def odd_retry(password, *, token):
        raise LookupError("gone")

    @job(name="OddEnd", retry=0, on_exhausted=lambda *given: 1 / 0)
    def odd_end(password, *, token):
        raise LookupError("gone")

    @job(name="Captures")
    def captures(password, *, token):
        try:
            raise LookupError("gone")
        except LookupError:
            sentry_sdk.capture_exception()
            sentry_sdk.capture_message("hello")

    @job(name="Discards")
    def discards(password, *, token):
        raise Discard("no more")

    @job(name="Skips")
    def skips(password, *, token):
        raise Skip("nothing to do")

    @job(name="Again")
    def again(password, *, token):
        raise Reschedule(3600)

    @job(name="Dropped")
    def dropped(password, *, token): ...

    @job(name="Deferred")
    def deferred(password, *, token): ...

    @job(name="Limited")
    def limited(password, *, token): ...

    @job(name="Locked", unique_until="until_executed")
    def locked(password, *, token): ...

    @job(name="Pushes")
    def pushes(password, *, token):
        locked.enqueue_in(3600, password, token=token)
        locked.enqueue_in(3600, password, token=token)
        success.enqueue((password, 1), token={token: 1, 2: password})
        success.enqueue({password: {1: 2}}, token=token)
        success.enqueue(password + "x" * 1000, token=token)
        note("pushed")
        success.enqueue(password)  # does not fit

    @job(name="Soft", soft_timeout=0.3)
    def soft(password, *, token):
        time.sleep(1)
        while True: ...

    @job(name="Lasts")
    def lasts(password, *, token):
        note("lasts", current_job().jid)
        while not current_job().interrupted_count:
            time.sleep(0.01)

    @job(name="Hangs", hard_timeout=2)
    def hangs(password, *, token):
        note("hangs")
        time.sleep(30)
"""

NAMES = (
    *("Success", "Failure", "Death", "Async", "OddRetry", "OddEnd", "Captures", "Discards", "Skips", "Again"),
    *("Dropped", "Deferred", "Limited", "Locked", "Pushes", "Soft", "Unknown::Class"),
)


def store(stored):
    """One job of each kind, and invalid bytes."""
    given: dict[str, object] = {"kwargs": {"token": BY_NAME}}
    for name in NAMES:
        push(stored, name, BY_POSITION, **given)
    push(stored, "Success", BY_POSITION, 1, 2, retry=0, **given)  # does not fit
    push(stored, "Success", BY_POSITION, 1, 2, signature="of others", **given)
    push_raw(
        stored,
        b'{"class":"Success","args":["%s"' % BY_POSITION.encode(),
        b'{"class":"Success","args":"%s","jid":"a","kwargs":{"token":"%s"}}' % (BY_POSITION.encode(), BY_NAME.encode()),
        b'{"class":"Success","args":["%s", 1e999],"jid":"b"}' % BY_POSITION.encode(),
    )


def recipe():
    """The structlog recipe of docs/logging.md."""
    texts = [snippet.text for snippet in snippets((ROOT / "docs" / "logging.md").read_text())]
    (text,) = [text for text in texts if "import structlog" in text]
    return text.replace("\n", "\n    ")


def start(workers, style, sentry, *options):
    is_structlog = style == "structlog"
    text = APPLICATION.replace("SENTRY", repr(sentry)).replace("HOOK", "configure_structlog(config)" * is_structlog)
    environ = {"OFFSIDER_LOG_FORMAT": "json" if is_structlog else style, "OFFSIDER_LOG_LEVEL": "debug"}
    text = f"    from offsider import Config\n    {recipe()}\n{text}" if is_structlog else text
    return workers.start("-c", "5", "-e", "development", *options, text=text, environ=environ, measured=False)


def written(workers):
    """Everything that left a worker except data sent to Redis and to the application's own handlers."""
    return {
        path.name: path.read_text() for path in workers.folder.iterdir() if path.suffix == ".log" or not path.suffix
    }


@pytest.mark.parametrize("style, sentry", [("text", {}), ("structlog", {}), ("json", {"send_default_pii": True})])
def test_no_argument_reaches_a_log_or_an_integration(workers, stored, ledger, style, sentry):
    from offsider.config.config import Config
    from offsider.inspector import Controls

    config = Config()
    config.redis.url = workers.url
    Controls(config).drop("Dropped", reason="a test")
    Controls(config).defer("Deferred", seconds=3600, reason="a test")
    store(stored)
    worker = start(workers, style, sentry, "-t", "1")
    wait_for(lambda: not stored.llen("queue:default") and ledger.notes("pushed"), 60)
    failing = {"Failure", "OddRetry"} if OBSTACLE else {"Failure", "OddRetry", "Soft"}
    wait_for(lambda: failing <= {job["class"] for job in sorted_set(stored, "retry")}, 60)
    worker.send("TTIN")
    for name in ("Lasts", "Hangs"):
        push(stored, name, BY_POSITION, kwargs={"token": BY_NAME})
    wait_for(lambda: ledger.notes("lasts") and ledger.notes("hangs"), 60)
    assert worker.ended() == 1, "the job that hangs ends it"
    killed = start(workers, style, sentry)
    jid = push(stored, "Lasts", BY_POSITION, kwargs={"token": BY_NAME})
    wait_for(lambda: ledger.notes("lasts", jid=jid))
    killed.kill_alone()
    wait_for(lambda: "is dead; requeued its" in killed.output)

    handed = [note.word for event in ("error", "death") for note in ledger.notes(event)]
    assert all(any(secret in word for word in handed) for secret in SECRETS), "handlers get whole payloads"
    found = written(workers)
    assert {"sentry", "spans", "statsd", "worker-0.log"} <= found.keys()
    assert all(name in found["worker-0.log"] for name in NAMES)
    for name, text in found.items():
        if name != "ledger":
            lines = [line for line in text.splitlines() if any(secret in line for secret in SECRETS)]
            assert not lines, (name, lines[0])


def test_arguments_are_logged_only_if_enabled(workers, stored):
    push(stored, "Death", BY_POSITION, kwargs={"token": BY_NAME})
    text = APPLICATION.replace("SENTRY", "{'send_default_pii': True}").replace("HOOK", "config.log.arguments = True")
    worker = workers.start(text=text, environ={"OFFSIDER_LOG_FORMAT": "json"})
    worker.until_says(BY_POSITION)
    worker.until_says(BY_NAME)
    wait_for(lambda: BY_POSITION in written(workers).get("sentry", ""))
