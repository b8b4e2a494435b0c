"""What Sentry would be sent, by a transport that keeps it."""

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from offsider.config.config import Config
from offsider.core.errors import Discard, HardTimeout, PoisonPill, Reschedule, Shutdown, Skip, Waiting
from offsider.integrations.sentry import HEADERS, Sentry
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Push

JID = "0" * 24


class Kept(Transport):
    """Keeps the events to send."""

    def __init__(self):
        super().__init__()
        self.items = []

    def capture_envelope(self, envelope):
        self.items += [item.payload.json for item in envelope.items]

    def of(self, kind):
        return [item for item in self.items if item and item.get("type", "error") == kind]


class Watched:
    """A configuration with the extension, and the events it sent."""

    def __init__(self, transport, **options):
        self.transport = transport
        self.config = Config()
        self.config.error_handlers.clear()
        self.config.use(Sentry(**options))

    def push(self, reason="push", **fields):
        payload = {"class": "Mail", "args": ["a@b.example"], "jid": JID, "queue": "low", **fields}
        self.config.client_middleware.run(Push(payload, reason), lambda push: push)
        return payload

    def run(self, payload, then):
        return self.config.server_middleware.run(JobContext(payload, payload["queue"]), then)

    def fail(self, error, payload=None, died=False):
        """As a worker does: the run, death handlers if it died, error handlers."""
        payload = payload or self.push()
        with pytest.raises(type(error)):
            self.run(payload, raising(error))
        if died:
            self.die(error, payload)
        self.config.handle_error(error, {"job": payload})

    def die(self, error, payload):
        for handler in self.config.death_handlers:
            handler(payload, error)

    @property
    def errors(self):
        return self.transport.of("error")

    @property
    def transactions(self):
        return self.transport.of("transaction")


def raising(error):
    def job(_):
        raise error

    return job


@pytest.fixture
def start():
    """Sets Sentry up, and the extension in a configuration."""

    def make(*, only_when_dead=False, redact=None, **options):
        transport = Kept()
        sentry_sdk.init(
            dsn="https://key@sentry.invalid/1",
            transport=transport,
            traces_sample_rate=1.0,
            default_integrations=False,
            **options,
        )
        return Watched(transport, only_when_dead=only_when_dead, redact=redact)

    yield make
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def watched(start):
    return start()


def test_a_run_is_a_transaction_in_the_trace_of_its_push(watched):
    with sentry_sdk.start_transaction(name="request") as request:
        payload = watched.push()
    watched.run(payload, lambda job: None)
    first, second = watched.transactions
    assert (first["transaction"], second["transaction"]) == ("request", "Mail")
    (publish,) = first["spans"]
    assert publish["op"] == "queue.publish"
    trace = second["contexts"]["trace"]
    assert (trace["op"], trace["status"]) == ("queue.process", "ok")
    assert trace["trace_id"] == request.trace_id
    assert trace["parent_span_id"] == publish["span_id"]
    assert trace["data"]["messaging.message.id"] == JID
    assert trace["data"]["messaging.destination.name"] == "low"
    assert second["tags"]["job"] == "Mail"


def test_an_active_job_is_identified_by_its_wrapped_class(start):
    seen = []
    watched = start(redact=lambda name, *_: seen.append(name), data_collection={"queues": True})
    watched.config.log.arguments = True
    with sentry_sdk.start_transaction(name="request"):
        payload = watched.push(**{"class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "MailJob"})
    watched.fail(LookupError("gone"), payload)
    request, run = watched.transactions
    assert request["spans"][0]["description"] == "MailJob"
    (event,) = watched.errors
    for reported in (run, event):
        assert (reported["transaction"], reported["tags"]["job"]) == ("MailJob", "MailJob")
        assert reported["contexts"]["job"]["class"] == "MailJob"
    assert set(seen) == {"MailJob"}


def test_the_trace_travels_where_rubys_sdk_has_it(watched):
    with sentry_sdk.start_transaction(name="request"):
        payload = watched.push()
    assert set(payload["trace_propagation_headers"]) == {"sentry-trace", "baggage"}
    assert "trace_propagation_headers" not in watched.push(reason="retry")


def test_a_run_records_the_queue_latency_and_the_attempt(watched):
    watched.run(watched.push(enqueued_at=1, retry_count=1), lambda job: None)
    data = watched.transactions[0]["contexts"]["trace"]["data"]
    assert data["messaging.message.receive.latency"] > 1e6
    assert data["messaging.message.retry.count"] == 2


def test_a_failure_is_sent_once_with_its_job(watched):
    watched.fail(LookupError("gone"))
    (event,) = watched.errors
    assert event["exception"]["values"][-1]["value"] == "gone"
    assert event["tags"] == {"job": "Mail", "queue": "low", "jid": JID}
    assert event["contexts"]["job"]["class"] == "Mail"
    assert event["transaction"] == "Mail"
    (transaction,) = watched.transactions
    assert transaction["contexts"]["trace"]["status"] == "internal_error"
    assert event["contexts"]["trace"]["trace_id"] == transaction["contexts"]["trace"]["trace_id"]


def test_each_failure_is_sent_also_of_an_error_that_is_raised_again(watched):
    error = LookupError("always the same")
    watched.fail(error)
    watched.fail(error, died=True)
    assert len(watched.errors) == 2


def test_only_the_last_failure_is_sent_where_that_is_wanted(start):
    watched = start(only_when_dead=True)
    watched.fail(LookupError("first"))
    assert watched.errors == []
    watched.fail(LookupError("last"), died=True)
    (event,) = watched.errors
    assert event["exception"]["values"][-1]["value"] == "last"
    assert event["tags"]["jid"] == JID


@pytest.mark.parametrize(
    "signal",
    [Skip(), Discard("x"), Reschedule(1), Waiting(1, "sleeps"), Shutdown()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("only_when_dead", [False, True])
def test_only_failures_are_sent(start, signal, only_when_dead):
    watched = start(only_when_dead=only_when_dead)
    watched.fail(signal, died=True)
    assert watched.errors == []
    status = watched.transactions[0]["contexts"]["trace"]["status"]
    assert status == ("aborted" if type(signal) is Shutdown else "ok")


def test_a_job_of_an_unknown_class_is_sent_though_it_has_no_run(watched):
    watched.config.handle_error(LookupError("no such job"), {"job": watched.push()})
    (event,) = watched.errors
    assert event["tags"]["job"] == "Mail"


def test_an_error_outside_of_jobs_is_sent_too(start):
    watched = start(only_when_dead=True)
    watched.config.handle_error(OSError("disk"), {"service": "heartbeat"})
    watched.config.handle_error(ValueError("handler"), {"context": "calling a death handler", "job": watched.push()})
    assert [event["exception"]["values"][-1]["type"] for event in watched.errors] == ["OSError", "ValueError"]


def test_a_poison_pill_is_sent(watched):
    watched.die(PoisonPill(("host:1:a",)), watched.push())
    (event,) = watched.errors
    assert event["exception"]["values"][-1]["type"] == "PoisonPill"


def test_a_job_that_a_person_kills_is_not_sent(watched):
    watched.die(None, watched.push())
    assert watched.errors == []


def test_a_timed_out_job_is_sent_once_even_if_its_thread_returns(watched):
    error = HardTimeout("60 s are over")
    payload = watched.push()
    watched.config.handle_error(error, {"job": payload})
    with pytest.raises(HardTimeout):
        watched.run(payload, raising(error))
    assert len(watched.errors) == 1


PERSONAL = [{"send_default_pii": True}, {"data_collection": {"queues": True}}]
ignores_deprecation = pytest.mark.filterwarnings("ignore:The send_default_pii option is deprecated:DeprecationWarning")


def frames_of(event):
    return [frame for value in event["exception"]["values"] for frame in value["stacktrace"]["frames"]]


@pytest.mark.parametrize("options", [{}, *PERSONAL], ids=str)
@ignores_deprecation
def test_arguments_are_sent_only_if_they_may_be_logged_even_as_variables(start, options):
    watched = start(**options)
    payload = watched.push()

    def job(job):
        address = job.args[0]
        raise LookupError(len(address))

    with pytest.raises(LookupError) as caught:
        watched.run(payload, job)
    watched.config.handle_error(caught.value, {"job": payload})
    (event,) = watched.errors
    assert len(frames_of(event)) > 1
    assert not any("vars" in frame for frame in frames_of(event))
    assert "a@b.example" not in str([event, watched.transactions])


def test_no_event_contains_variables_of_our_frames(watched):
    payload = {"class": "Mail", "args": ["a@b.example"], "jid": JID}
    try:
        watched.config.client_middleware.run(Push(payload, "retry"), raising(LookupError()))
    except LookupError:
        sentry_sdk.capture_exception()
    sentry_sdk.capture_message("hello")
    ours = [frame for frame in frames_of(watched.errors[0]) if frame["module"].startswith("offsider.")]
    assert ours
    assert not any("vars" in frame for frame in ours)


@pytest.mark.parametrize("options", PERSONAL, ids=str)
@ignores_deprecation
def test_arguments_are_sent_where_personal_data_may_be(start, options):
    watched = start(**options)
    watched.config.log.arguments = True
    watched.fail(LookupError())
    assert any("vars" in frame for frame in frames_of(watched.errors[0]))
    assert watched.errors[0]["contexts"]["job"]["arguments"] == ["a@b.example"]
    watched.fail(LookupError(), watched.push(kwargs={"copy": True}))
    assert watched.errors[1]["contexts"]["job"]["arguments"] == {"args": ["a@b.example"], "kwargs": {"copy": True}}


def test_no_variable_of_an_encrypted_job_is_sent(start):
    watched = start(data_collection={"queues": True})
    watched.config.log.arguments = True
    watched.fail(LookupError(), watched.push(encrypt=True))
    assert not any("vars" in frame for frame in frames_of(watched.errors[0]))


def test_without_data_categories_the_pii_setting_decides(start, monkeypatch):
    watched = start()
    watched.config.log.arguments = True
    client = sentry_sdk.get_client()
    monkeypatch.delitem(client.options, "data_collection")
    monkeypatch.setattr(type(client), "should_send_default_pii", lambda self: True)
    watched.fail(LookupError())
    assert watched.errors[0]["contexts"]["job"]["arguments"] == ["a@b.example"]


def test_arguments_can_be_redacted(start):
    watched = start(data_collection={"queues": True}, redact=lambda name, args, kwargs: [name, len(args)])
    watched.config.log.arguments = True
    watched.fail(LookupError())
    assert watched.errors[0]["contexts"]["job"]["arguments"] == ["Mail", 1]


def test_data_of_one_run_does_not_leak_into_the_next(watched):
    def job(_):
        sentry_sdk.set_tag("tenant", "acme")
        sentry_sdk.add_breadcrumb(message="crumb")

    watched.run(watched.push(), job)
    watched.fail(LookupError())
    (event,) = watched.errors
    assert "tenant" not in event["tags"]
    assert "crumb" not in str(event.get("breadcrumbs"))


def test_an_error_that_accepts_no_attributes_is_still_sent(watched):
    class Slotted(Exception):
        __slots__ = ()

        def __setattr__(self, name, value):
            raise AttributeError(name)

    watched.config.handle_error(Slotted(), {})
    assert len(watched.errors) == 1


def test_buffered_data_is_sent_when_the_worker_ends(watched, monkeypatch):
    flushed = []
    monkeypatch.setattr(sentry_sdk, "flush", lambda **options: flushed.append(options))
    watched.config.events.emit("exit")
    assert flushed == [{"timeout": 2.0}]


def test_without_sentry_nothing_happens():
    watched = Watched(Kept())
    payload = watched.push()
    assert HEADERS not in payload
    assert watched.run(payload, lambda job: "ran") == "ran"
    watched.fail(LookupError())
