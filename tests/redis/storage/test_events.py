"""The event log is bounded, and its record never fails what it records."""

from __future__ import annotations

from offsider.inspector import EventLog
from offsider.storage import events
from offsider.storage.events import ACTION, DIED, MAX_CHARACTERS, MAX_EVENTS


def test_events_are_read_newest_first_and_filtered(pool, config, raw_redis):
    log = EventLog(config)
    for number in range(5):
        events.note(pool, DIED, f"host:{number}:abc", how="was killed by SIGSEGV", jobs=number)
    events.note(pool, ACTION, "default", "Kim", outcome="Deleted 3 jobs.", undo="")
    newest, *died = log.read()
    assert (newest.kind, newest.subject, newest.who) == ("action", "default", "Kim")
    assert newest.fields == {"outcome": "Deleted 3 jobs."}
    assert [(event.subject, event.fields["jobs"]) for event in died] == [
        (f"host:{number}:abc", str(number)) for number in (4, 3, 2, 1, 0)
    ]
    assert len(log) == 6
    assert log.read(who="kim") == [newest]
    assert log.read(subject="HOST:3") == [died[1]]
    assert log.read(kinds={"process-died"}, count=2) == died[:2]
    assert log.read(kinds=["deploy"]) == []


def test_a_time_range_includes_both_ends(pool, config, raw_redis):
    for at in (1_000, 2_000, 3_000):
        raw_redis.xadd("offsider:events", {"kind": "deploy", "subject": str(at)}, id=f"{at}-1")
    log = EventLog(config)
    assert [event.at for event in log.read(since=2.0)] == [3.0, 2.0]
    assert [event.at for event in log.read(until=2.0)] == [2.0, 1.0]
    assert [event.subject for event in log.read(since=1.5, until=2.5)] == ["2000"]


def test_the_log_is_bounded_and_read_to_its_end(pool, config, raw_redis):
    commands = [events.command(pool.keys, DIED, f"host:{number}") for number in range(MAX_EVENTS + 1_500)]
    pool.pipeline(commands)
    assert MAX_EVENTS <= len(EventLog(config)) < MAX_EVENTS + 500
    found = EventLog(config).read(count=2 * MAX_EVENTS)
    assert [event.subject for event in found] == [
        f"host:{MAX_EVENTS + 1_499 - number}" for number in range(len(EventLog(config)))
    ]
    assert raw_redis.memory_usage("offsider:events", samples=0) / len(found) < 124


def test_a_long_text_is_cut(pool, config):
    events.note(pool, ACTION, "x" * 1_000, outcome=b"y" * 1_000)
    (event,) = EventLog(config).read()
    assert event.subject == "x" * (MAX_CHARACTERS - 1) + "…"
    assert len(event.fields["outcome"]) == MAX_CHARACTERS


def test_a_lost_server_fails_nothing(proxied, proxy):
    assert events.note(proxied, ACTION, "queue")
    proxy.refuse()
    assert not events.note(proxied, ACTION, "queue")
