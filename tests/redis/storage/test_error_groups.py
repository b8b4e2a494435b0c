"""Failed runs in groups, with their counts per minute and release."""

from __future__ import annotations

import pytest

from offsider.core.error_text import Frame
from offsider.inspector import EventLog
from offsider.storage import error_groups, events
from offsider.storage.error_groups import (
    KEEP_SECONDS,
    MAX_EVENTS,
    MAX_FIELDS,
    QUIET_SECONDS,
    ErrorMinute,
    Noted,
    group_of,
)
from tests.redis.errors import failed_run, note_as, note_errors

MINUTE = 60.0
NOW = 30_000_000 * MINUTE + 5.0
START = NOW - 5.0


def read(pool):
    return {group.id: group for group in error_groups.read(pool, error_groups.ids(pool))}


def test_errors_of_one_function_are_one_group_whatever_their_messages(pool):
    note_errors(pool, failed_run(NOW, "'FR'"), failed_run(NOW, "None"), failed_run(NOW, "None"))
    moved = Frame("mail.py", "send", 70)
    note_errors(pool, failed_run(NOW, "None", frame=moved, is_first=False))
    (group,) = read(pool).values()
    assert group.id == group_of("Mail", "ValueError", "mail.py:send")
    assert group.messages == {"None": 3, "'FR'": 1}
    assert group.frame == moved, "the line is that of the last error"
    assert (group.attempts, group.jobs, group.deaths) == (4, 3, 0)


@pytest.mark.parametrize(
    "other",
    [{"name": "Call"}, {"error": "KeyError"}, {"frame": Frame("mail.py", "open", 7)}, {"frame": Frame()}],
    ids=["class", "error class", "frame", "no frame"],
)
def test_groups_differ_in_class_error_class_and_frame(pool, other):
    note_errors(pool, failed_run(NOW), failed_run(NOW, **other))
    assert len(read(pool)) == 2


def test_messages_that_differ_only_in_numbers_and_ids_are_counted_together(pool):
    texts = ("timeout after 3 s at 0xfe", "timeout after 30 s at 0x1", "no user 9f86d081-1234-4abc-9def-0123456789ab")
    note_errors(pool, *(failed_run(NOW, message) for message in texts))
    (group,) = read(pool).values()
    assert group.messages == {"timeout after # s at #": 2, "no user #": 1}
    assert group.message == texts[2]


def test_a_group_has_totals_minutes_and_facts(pool):
    old = {"release": "v1", "host": "a", "caller": "GET /", "tenant": "acme", "user": "ann", "jid": "j1"}
    note_errors(pool, failed_run(NOW, "first", **old), failed_run(NOW + 60, **old, died=True), traceback="first")
    new = old | {"release": "v2", "host": "b", "user": "bob", "queue": "low", "jid": "j2"}
    note_errors(pool, failed_run(NOW + 60, "last", **new, is_first=False), traceback="last")
    (group,) = read(pool).values()
    assert (group.attempts, group.jobs, group.deaths) == (3, 2, 1)
    assert (group.first_at, group.last_at) == (NOW, NOW + 60)
    assert (group.first_release, group.last_release) == ("v1", "v2")
    assert (group.message, group.traceback, group.queue, group.last_jid) == ("last", "last", "low", "j2")
    assert (group.releases, group.hosts) == ({"v1": 2, "v2": 1}, {"a": 2, "b": 1})
    assert (group.callers, group.tenants) == ({"GET /": 3}, {"acme": 3})
    assert (group.users, group.user_count) == ({"ann": 2, "bob": 1}, 2)
    assert error_groups.minutes(pool, NOW, NOW + 60, group.id) == [
        ErrorMinute(group.id, START, "v1", 1, 1, 0),
        ErrorMinute(group.id, START + 60, "v1", 1, 1, 1),
        ErrorMinute(group.id, START + 60, "v2", 1, 0, 0),
    ]
    assert error_groups.minutes(pool, NOW + 60, NOW + 60) == error_groups.minutes(pool, NOW, NOW + 60)[1:]


def test_frequent_values_stay_exact_while_the_fields_are_bounded(pool, raw_redis):
    for batch in range(MAX_FIELDS // 10):
        users = [f"user-{batch}-{number}" for number in range(20)]
        note_as(pool, "a1", *(failed_run(NOW, user=user, tenant="acme") for user in ["ann", "ann", *users]))
    assert raw_redis.hlen("offsider:errors:a1") <= MAX_FIELDS
    group = read(pool)["a1"]
    assert next(iter(group.users.items())) == ("ann", MAX_FIELDS // 10 * 2)
    assert len(group.users) == 8
    assert group.tenants == {"acme": group.attempts}
    assert 0.95 < group.user_count / (1 + MAX_FIELDS * 2) < 1.05


def told(pool):
    return [(event["kind"], event["subject"], event["release"]) for _, event in events.newest_first(pool, None, None)]


def test_a_resolved_group_returns_when_another_release_fails(pool, raw_redis):
    note_as(pool, "a1", failed_run(NOW, release="v1"))
    assert error_groups.resolve(pool, "a1", NOW + 1)
    note_as(pool, "a1", failed_run(NOW + 2, release="v1"))
    assert (read(pool)["a1"].resolved_at, read(pool)["a1"].returned_at) == (NOW + 1, None), "an old process still runs"
    note_as(pool, "a1", failed_run(NOW + 3, release="v2"))
    assert (read(pool)["a1"].resolved_at, read(pool)["a1"].returned_at) == (None, NOW + 3)
    assert told(pool) == [("error-returned", "Mail", "v2"), ("error-new", "Mail", "v1")]
    assert error_groups.resolve(pool, "a1", NOW + 4)
    assert (read(pool)["a1"].resolved_at, read(pool)["a1"].returned_at) == (NOW + 4, None)
    raw_redis.hset("offsider:errors:a1", "resolved_in", "odd")
    note_as(pool, "a1", failed_run(NOW + 5, release="v2"))
    assert read(pool)["a1"].returned_at == NOW + 5


def test_a_group_without_releases_returns_with_its_next_error_and_is_reopened_by_hand(pool):
    note_as(pool, "a1", failed_run(NOW))
    assert error_groups.resolve(pool, "a1", NOW)
    assert error_groups.reopen(pool, "a1")
    assert not error_groups.reopen(pool, "a1")
    assert read(pool)["a1"].resolved_at is None
    assert error_groups.resolve(pool, "a1", NOW)
    note_as(pool, "a1", failed_run(NOW + 1))
    assert read(pool)["a1"].returned_at == NOW + 1
    assert not error_groups.resolve(pool, "b2", NOW)


def test_the_groups_that_were_not_seen_for_longest_make_room_with_all_they_have(pool, raw_redis, monkeypatch):
    monkeypatch.setattr(error_groups, "MAX_GROUPS", 2)
    for number in range(4):
        note_as(pool, f"{number}", failed_run(NOW + number, user="ann"))
    assert set(read(pool)) == {"2", "3"}
    kept = {key.split(b":")[2] for key in raw_redis.keys("offsider:errors:*")}
    assert kept == {b"2", b"3"}


def test_a_group_that_is_not_seen_for_a_month_is_deleted(pool, raw_redis):
    note_as(pool, "dead", failed_run(NOW - KEEP_SECONDS - 1))
    note_as(pool, "beef", failed_run(NOW, user="ann"))
    assert set(read(pool)) == {"beef"}
    for key in ("offsider:errors:beef", "offsider:errors:beef:users"):
        assert 0 < raw_redis.ttl(key) <= KEEP_SECONDS


def test_invalid_entries_are_omitted(pool, raw_redis):
    note_as(pool, "a", failed_run(NOW))
    raw_redis.zadd("offsider:errors", {b"\xff": 1, "not hex": 2, "c": 3, "d": 4})
    raw_redis.set("offsider:errors:d", "text")
    raw_redis.hset("offsider:errors:a", mapping={"jid": b"\xff", "jobs": "many"})
    assert [(group.id, group.last_jid, group.jobs) for group in read(pool).values()] == [("a", "\ufffd", 0)]


def test_a_new_group_and_one_that_returns_after_a_day_are_events(pool, config):
    def reported() -> list[tuple[str, str]]:
        return [(event.kind, event.fields["release"]) for event in EventLog(config).read()]

    note_errors(pool, failed_run(NOW, "secret", release="v1"), failed_run(NOW, release="v1"))
    note_errors(pool, failed_run(NOW + QUIET_SECONDS - 1, release="v2"))
    assert reported() == [("error-new", "v1")]
    note_errors(pool, failed_run(NOW + 2 * QUIET_SECONDS, release="v3"))
    assert reported() == [("error-returned", "v3"), ("error-new", "v1")]
    (event, _) = EventLog(config).read()
    assert (event.subject, event.fields["error_class"]) == ("Mail", "ValueError")
    assert event.fields["group"] == group_of("Mail", "ValueError", "mail.py:send")
    assert "secret" not in str(EventLog(config).read())


def test_a_flood_of_new_groups_does_not_fill_the_event_log(pool, config):
    note_errors(pool, *(failed_run(NOW, name=f"Mail{number}") for number in range(100)))
    assert len(EventLog(config)) == MAX_EVENTS


def test_failed_runs_that_could_not_be_written_are_counted_with_the_next_ones(pool):
    first, later = failed_run(NOW, "first", release="v1"), failed_run(NOW + 60, "later", release="v2", user="ann")
    kept, more = Noted(first, "Traceback", NOW), Noted(later, "", NOW + 60)
    kept.add(first)
    more.add(later)
    kept.add_later(more)
    error_groups.note(pool, {first.group: kept})
    (group,) = read(pool).values()
    assert (group.attempts, group.jobs, group.message, group.traceback) == (2, 2, "later", "Traceback")
    assert group.messages == {"first": 1, "later": 1}
    assert group.users == {"ann": 1}


def test_without_a_traceback_the_last_one_is_kept(pool):
    note_errors(pool, failed_run(NOW))
    note_errors(pool, failed_run(NOW + 1), traceback="")
    (group,) = read(pool).values()
    assert (group.attempts, group.traceback) == (2, "Traceback")
