"""What is noted of failed runs."""

from __future__ import annotations

import threading

import pytest

from offsider.config.installation import Installation
from offsider.inspector import Attempts, ErrorGroups
from offsider.runtime.context import JobContext
from offsider.storage.error_groups import MESSAGE_CHARACTERS, group_of
from offsider.worker.settle.failures import MAX_ATTEMPTS, Failures
from tests.waiting import wait_for


@pytest.fixture
def config(worker_config, raw_redis):
    return worker_config


@pytest.fixture
def failures(config):
    made = Failures(config, Installation.of(config).redis, lambda: "host:42:nonce")
    yield made
    made.stop()
    made.join(5)


def job(name: str = "Mails", jid: str = "a1", **fields: object) -> JobContext:
    return JobContext({"class": name, "args": [], "jid": jid, **fields}, "default")


def test_an_attempt_is_stored_with_its_worker_and_its_error(config, failures, raw_redis):
    failures.note(job(), ValueError("no 1"), 1.25, 60.0)
    failures.note(job(retry_count=0), KeyError("x"), 0.5, 60.0)
    failures.flush()
    newest, first = Attempts.of("a1", config)
    assert (first.number, first.host, first.error_class, first.error_message) == (1, "host:42", "ValueError", "no 1")
    assert (first.duration_seconds, newest.number, newest.error_class) == (1.25, 2, "KeyError")
    assert abs(first.at - config.clock.now()) < 60
    assert 0 < raw_redis.ttl("offsider:attempts:a1") <= 60


def test_the_error_of_an_active_job_is_that_of_the_class_in_its_wrapper(config, failures):
    for wrapper in ("Sidekiq::ActiveJob::Wrapper", "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"):
        failures.note(job(wrapper, wrapped="MailJob"), ValueError(), 0.0, None)
    failures.note(job("Sidekiq::ActiveJob::Wrapper", wrapped="OtherJob"), ValueError(), 0.0, None)
    failures.flush()
    assert {group.name: group.count for group in ErrorGroups(config).page()} == {"MailJob": 2, "OtherJob": 1}


def test_ten_attempts_are_kept(config, failures):
    for number in range(12):
        failures.note(job(retry_count=number), ValueError(), 0.0, 60.0)
        failures.flush()
    assert [attempt.number for attempt in Attempts.of("a1", config)] == list(range(13, 3, -1))


def test_for_a_missing_job_or_one_without_a_jid_only_the_error_is_counted(config, failures, raw_redis):
    failures.note(job(), ValueError(), 0.0, None)
    failures.note(job(jid=""), ValueError(), 0.0, 60.0)
    failures.flush()
    assert raw_redis.keys("offsider:attempts:*") == []
    assert [group.count for group in ErrorGroups(config).page()] == [2]


def test_the_attempts_of_a_job_that_is_done_are_forgotten(config, failures):
    failures.note(job(), ValueError(), 0.0, 60.0)
    failures.flush()
    failures.forget("a1")
    failures.flush()
    assert Attempts.of("a1", config) == []


def test_errors_are_counted_together_when_they_differ_in_numbers_and_ids_alone(config, failures):
    for text in ("row 17 of 0xfe", "row 18 of 0x01", "row 3 of 0x99"):
        failures.note(job(), ValueError(text), 0.0, None)
    failures.note(job(), KeyError("row 17 of 0xfe"), 0.0, None)
    failures.flush()
    failures.note(job(jid="last"), ValueError("row 5 of 0x5"), 0.0, None)
    failures.flush()
    groups = {group.error_class: group for group in ErrorGroups(config).page()}
    assert (groups["ValueError"].count, groups["KeyError"].count) == (4, 1)
    assert (groups["ValueError"].last_jid, groups["ValueError"].queue, groups["ValueError"].name) == (
        "last",
        "default",
        "Mails",
    )
    assert sum(groups["ValueError"].recent.values()) == 4


def test_a_long_message_is_cut_and_one_that_cannot_be_shown_is_named(config, failures):
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    failures.note(job(), ValueError("x" * 10_000), 0.0, 60.0)
    failures.note(job(), Odd(), 0.0, 60.0)
    failures.flush()
    odd, long = Attempts.of("a1", config)
    assert len(long.error_message) == MESSAGE_CHARACTERS
    assert "cannot be shown" in odd.error_message


def test_a_storm_keeps_the_counts_and_the_newest_attempts(config, failures):
    for number in range(MAX_ATTEMPTS + 50):
        failures.note(job(jid=f"j{number}"), ValueError(), 0.0, 60.0)
    failures.flush()
    assert [group.count for group in ErrorGroups(config).page()] == [MAX_ATTEMPTS + 50]
    assert Attempts.of("j49", config) == []
    assert len(Attempts.of("j50", config)) == 1


def test_more_kinds_of_errors_than_are_kept_do_not_pile_up(config, failures, monkeypatch):
    monkeypatch.setattr("offsider.storage.error_groups.MOST", 3)
    for letter in "abcde":
        failures.note(job(), ValueError(letter), 0.0, None)
    failures.flush()
    assert len(ErrorGroups(config)) == 3


def test_the_service_writes_periodically_in_batches(config, failures):
    failures.start()
    failures.note(job(), ValueError(), 0.0, 60.0)
    wait_for(lambda: len(Attempts.of("a1", config)) == 1)
    failures.forget("a1")
    wait_for(lambda: Attempts.of("a1", config) == [])


def test_an_outage_loses_only_the_recorded_failures(config, caplog):
    config.redis.url = "redis://127.0.0.1:1"
    away = Failures(config, Installation.of(config).make_redis(1), lambda: "h:1:n")
    away.note(job(), ValueError(), 0.0, 60.0)
    away.flush()
    away.flush()
    assert not away._pending()


def test_threads_may_note_at_once(config, failures):
    def note() -> None:
        for _ in range(50):
            failures.note(job(), ValueError(), 0.0, 60.0)

    threads = [threading.Thread(target=note) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failures.flush()
    assert [group.count for group in ErrorGroups(config).page()] == [200]


@pytest.mark.parametrize(
    "one, other, alike",
    [
        ("timeout after 3 s", "timeout after 30 s", True),
        ("user 9f86d081-1234-4abc-9def-0123456789ab", "user 00000000-0000-0000-0000-000000000000", True),
        ("no such table: mails", "no such table: users", False),
    ],
)
def test_similar_errors_form_one_group(one, other, alike):
    assert (group_of("A", "E", one) == group_of("A", "E", other)) is alike
