"""What is noted of failed runs."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Failed
from offsider.inspector import Attempts, ErrorGroups
from offsider.runtime.context import JobContext
from offsider.storage import error_groups
from offsider.storage.error_groups import MAX_MESSAGE_CHARACTERS
from offsider.worker.settle.failures import MAX_ATTEMPTS, Failures
from offsider.worker.unit_of_work import Run
from tests.waiting import wait_for


@pytest.fixture
def config(worker_config, raw_redis):
    return worker_config


NOW = 1_800_000_000.0


class Recorder(Failures):
    def failed(self, job: JobContext, error: Exception, seconds: float, kept_seconds: float | None) -> None:
        """Record a run that ended at `NOW`."""
        run = Run(job, Failed(error), NOW - seconds, seconds, None)
        self.note(run, job, error, kept_seconds, died=kept_seconds is None)


@pytest.fixture
def failures(config):
    config.client.app_version = "v1"
    made = Recorder(config, Installation.of(config).redis, lambda: "host:42:nonce")
    yield made
    made.stop()
    made.join(5)


def job(name: str = "Mails", jid: str = "a1", **fields: object) -> JobContext:
    return JobContext({"class": name, "args": [], "jid": jid, **fields}, "default")


def test_an_attempt_is_stored_with_its_worker_and_its_error(config, failures, raw_redis):
    failures.failed(job(), ValueError("no 1"), 1.25, 60.0)
    failures.failed(job(retry_count=0), KeyError("x"), 0.5, 60.0)
    failures.flush()
    newest, first = Attempts.of("a1", config)
    assert (first.number, first.host, first.error_class, first.error_message) == (1, "host:42", "ValueError", "no 1")
    assert (first.duration_seconds, newest.number, newest.error_class) == (1.25, 2, "KeyError")
    assert first.at == NOW
    assert 0 < raw_redis.ttl("offsider:attempts:a1") <= 60


def test_the_error_of_an_active_job_is_that_of_the_class_in_its_wrapper(config, failures):
    for wrapper in ("Sidekiq::ActiveJob::Wrapper", "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"):
        failures.failed(job(wrapper, wrapped="MailJob"), ValueError(), 0.0, None)
    failures.failed(job("Sidekiq::ActiveJob::Wrapper", wrapped="OtherJob"), ValueError(), 0.0, None)
    failures.flush()
    assert {group.name: group.attempts for group in ErrorGroups(config).page()} == {"MailJob": 2, "OtherJob": 1}


def test_for_a_missing_job_or_one_without_a_jid_only_the_error_is_counted(config, failures, raw_redis):
    failures.failed(job(), ValueError(), 0.0, None)
    failures.failed(job(jid=""), ValueError(), 0.0, 60.0)
    failures.flush()
    assert raw_redis.keys("offsider:attempts:*") == []
    assert [group.attempts for group in ErrorGroups(config).page()] == [2]


def test_the_attempts_of_a_job_that_is_done_are_forgotten(config, failures):
    failures.failed(job(), ValueError(), 0.0, 60.0)
    failures.flush()
    failures.forget("a1")
    failures.flush()
    assert Attempts.of("a1", config) == []


def test_a_job_counts_once_while_it_fails_with_the_same_error(config, failures):
    def fail(key: object, **fields: object) -> None:
        with pytest.raises(KeyError) as caught:
            raise KeyError(key)
        failures.failed(job(**{"meta.user": "ann", "meta.project": "acme", **fields}), caught.value, 0.5, None)

    frame = f"{'/'.join(__name__.split('.'))}.py:{fail.__qualname__}"
    fail("FR", **{"meta.caller_id": "GET /"})
    fail(None, retry_count=0, error_class="KeyError", error_frame=frame)
    fail("DE", retry_count=1, error_class="ValueError", error_frame=frame)
    failures.flush()
    (group,) = ErrorGroups(config).page()
    assert group.frame.name == frame
    assert (group.attempts, group.jobs, group.deaths) == (3, 2, 3)
    assert group.messages == {"'FR'": 1, "None": 1, "'DE'": 1}
    assert (group.hosts, group.callers, group.tenants, group.users) == (
        {"host": 3},
        {"GET /": 1},
        {"acme": 3},
        {"ann": 3},
    )
    assert "raise KeyError(key)" in group.traceback
    assert (group.releases, group.user_count, group.first_at) == ({"v1": 3}, 1, NOW)


def test_a_long_message_is_cut_and_one_that_cannot_be_shown_is_named(config, failures):
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    failures.failed(job(), ValueError("x" * 10_000), 0.0, 60.0)
    failures.failed(job(), Odd(), 0.0, 60.0)
    failures.flush()
    odd, long = Attempts.of("a1", config)
    assert len(long.error_message) == MAX_MESSAGE_CHARACTERS
    assert "cannot be shown" in odd.error_message


def test_a_storm_keeps_the_counts_and_the_newest_attempts(config, failures):
    for number in range(MAX_ATTEMPTS + 50):
        failures.failed(job(jid=f"j{number}"), ValueError(), 0.0, 60.0)
    failures.flush()
    assert [group.attempts for group in ErrorGroups(config).page()] == [MAX_ATTEMPTS + 50]
    assert Attempts.of("j49", config) == []
    assert len(Attempts.of("j50", config)) == 1


def test_more_kinds_of_errors_than_are_kept_do_not_pile_up(config, failures, monkeypatch):
    monkeypatch.setattr("offsider.storage.error_groups.MAX_GROUPS", 3)
    for letter in "abcde":
        failures.failed(job(letter), ValueError(), 0.0, None)
    failures.flush()
    assert len(ErrorGroups(config)) == 3


def test_the_service_writes_periodically_in_batches(config, failures):
    failures.start()
    failures.failed(job(), ValueError(), 0.0, 60.0)
    wait_for(lambda: len(Attempts.of("a1", config)) == 1)
    failures.forget("a1")
    wait_for(lambda: Attempts.of("a1", config) == [])


def test_an_outage_loses_attempts_and_no_counts(proxied_config, proxy):
    failures = Recorder(proxied_config, Installation.of(proxied_config).make_redis(1), lambda: "h:1:n")
    proxy.refuse()
    failures.failed(job(), ValueError("first"), 0.0, 60.0)
    failures.failed(job("Other"), ValueError(), 0.0, 60.0)
    failures.flush()
    failures.failed(job(jid="b2"), ValueError("second"), 0.0, 60.0)
    failures.failed(job("Third"), ValueError(), 0.0, 60.0)
    failures.flush()
    proxy.accept()
    failures.flush()
    failures.flush()
    groups = {group.name: group for group in ErrorGroups(proxied_config).page()}
    assert {name: group.attempts for name, group in groups.items()} == {"Mails": 2, "Other": 1, "Third": 1}
    assert groups["Mails"].messages == {"first": 1, "second": 1}
    assert groups["Mails"].last_jid == "b2"
    assert Attempts.of("a1", proxied_config) == []


def test_counts_are_not_repeated_if_the_connection_breaks_after_they_were_stored(config, failures, monkeypatch):
    def broken(*_: object) -> None:
        raise RedisUnavailable("away", ambiguous=False)

    monkeypatch.setattr(error_groups.series, "trim", broken)
    failures.failed(job(), ValueError(), 0.0, 60.0)
    failures.flush()
    monkeypatch.undo()
    failures.flush()
    assert [group.attempts for group in ErrorGroups(config).page()] == [1]
