"""The metrics sent for each event of a job."""

import pytest

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError
from offsider.core.payload import encode
from offsider.integrations.statsd import Statsd
from offsider.runtime.context import JobContext
from offsider.runtime.events import ExecutionFinished, JobPoisoned, JobReclaimed, JobRemoved

TAGS = ("worker:Mail", "queue:low")
RAW = encode({"class": "Mail", "args": [], "jid": "0" * 24})


class Client:
    """Records the metrics to send."""

    def __init__(self):
        self.sent = []
        self.stopped = 0

    def _note(self, metric, value=1, tags=None, sample_rate=None):
        self.sent.append((metric, value, tuple(tags or ()), sample_rate))

    increment = gauge = timing = distribution = _note

    def stop(self, timeout=None):
        self.stopped += 1


@pytest.fixture
def client():
    return Client()


def finish(config, outcome, error=None):
    job = JobContext({"class": "Mail", "args": [], "jid": "0" * 24}, "low")
    config.events.emit("execution_finished", ExecutionFinished(job, outcome, error, 0.5, 0.25, 0.1))


def using(client, **options):
    config = Config()
    config.use(Statsd(lambda: client, **options))
    return config


def test_a_success_is_counted_and_timed_in_milliseconds(client):
    finish(using(client), "succeeded")
    assert client.sent == [
        ("jobs.count", 1, TAGS, None),
        ("jobs.success", 1, TAGS, None),
        ("jobs.perform", 250, TAGS, None),
        ("jobs.perform_dist", 250, TAGS, None),
    ]


@pytest.mark.parametrize("outcome", ["failed", "died"])
def test_a_failure_is_counted_by_its_class_and_not_timed(client, outcome):
    finish(using(client), outcome, LookupError("gone"))
    assert client.sent == [("jobs.count", 1, TAGS, None), ("jobs.failure", 1, (*TAGS, "error_type:LookupError"), None)]


@pytest.mark.parametrize("outcome", ["rescheduled", "discarded", "skipped", "interrupted"])
def test_other_outcomes_count_only_as_runs(client, outcome):
    finish(using(client), outcome)
    assert client.sent == [("jobs.count", 1, TAGS, None)]


def test_reclaimed_jobs_are_counted(client):
    config = using(client)
    config.events.emit("job_reclaimed", JobReclaimed(RAW, "low", "host:1:a", 1))
    config.events.emit("job_poisoned", JobPoisoned(RAW, "low", ("host:1:a",)))
    for how in ("expire", "delete"):
        config.events.emit("job_removed", JobRemoved(RAW, "queue:low", how, "main"))
    counted = ("jobs.recovered.fetch", "jobs.poison", "jobs.expired")
    assert client.sent == [(name, 1, TAGS, None) for name in counted]


def test_tags_and_the_share_that_is_sent_may_depend_on_the_job(client):
    config = using(client, options=lambda job: {"tags": [f"shop:{job.queue}"], "sample_rate": 0.5})
    finish(config, "skipped")
    assert client.sent == [("jobs.count", 1, (*TAGS, "shop:low"), 0.5)]


def test_a_client_that_fails_is_reported_and_no_more(client):
    config = using(client, options=lambda job: 1 / 0)
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(type(error)))
    finish(config, "succeeded")
    assert errors == [ZeroDivisionError]


@pytest.mark.parametrize("seconds", [0, -1, 0.5, float("nan")])
def test_history_needs_a_time(seconds):
    with pytest.raises(ConfigurationError, match="retain_history"):
        Statsd(retain_history=seconds)


def test_history_is_a_service_only_if_enabled(client):
    assert len(using(client).services) == 0
    (make,) = using(client, retain_history=30).services
    assert make(Config()).name == "offsider-history"


def test_each_worker_has_one_client_from_its_start_to_its_end():
    made = []

    def make():
        made.append(Client())
        return made[-1]

    config = Config()
    config.use(Statsd(make))
    assert made == [], "a parent may fork before the start"
    config.events.emit("startup")
    assert len(made) == 1
    finish(config, "succeeded")
    config.events.emit("shutdown")
    assert made[0].stopped == 0, "jobs are still running"
    finish(config, "succeeded")
    config.events.emit("exit")
    assert [(client.stopped, len(client.sent)) for client in made] == [(1, 8)]
    config.events.emit("startup")
    assert len(made) == 2, "a second worker in the same program"


def test_a_client_in_place_of_a_function_is_refused(client):
    with pytest.raises(ConfigurationError, match="a function that creates the client"):
        Statsd(client)
