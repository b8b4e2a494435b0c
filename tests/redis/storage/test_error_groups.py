"""Errors that are alike, counted together."""

from __future__ import annotations

from offsider.storage import error_groups
from offsider.storage.error_groups import HOURS, KEEP_SECONDS, Noted

HOUR = 3600
NOW = 500_000 * HOUR + 1800.0


def noted(group: str = "a", count: int = 1, at: float = NOW, jid: str = "j") -> Noted:
    return Noted(group, count, at, f'{{"class": "of {group}"}}', jid)


def read(pool):
    return {group.id: group for group in error_groups.read(pool, error_groups.ids(pool))}


def test_a_group_is_counted_in_all_and_by_the_hour(pool):
    error_groups.note(pool, [noted(count=2, jid="first"), noted("b")])
    error_groups.note(pool, [noted(count=3, at=NOW + HOUR, jid="last")])
    group = read(pool)["a"]
    assert (group.count, group.first_at, group.last_at, group.jid) == (5, NOW, NOW + HOUR, "last")
    assert group.hours == {500_000: 2, 500_001: 3}
    assert group.info == b'{"class": "of a"}'
    assert [name for name, _ in error_groups.ids(pool)] == ["a", "b"], "what was seen last comes first"


def test_an_hour_makes_room_for_the_one_two_days_later(pool):
    error_groups.note(pool, [noted(count=2)])
    error_groups.note(pool, [noted(count=5, at=NOW + HOURS * HOUR)])
    assert read(pool)["a"].hours == {500_000 + HOURS: 5}
    assert read(pool)["a"].count == 7


def test_late_errors_do_not_make_a_group_older(pool):
    error_groups.note(pool, [noted(at=NOW)])
    error_groups.note(pool, [noted(at=NOW - 600)])
    assert (read(pool)["a"].last_at, read(pool)["a"].count) == (NOW, 2)


def test_the_groups_that_were_not_seen_for_longest_make_room_with_all_they_have(pool, raw_redis, monkeypatch):
    monkeypatch.setattr(error_groups, "MOST", 2)
    for number in range(4):
        error_groups.note(pool, [noted(f"{number}", at=NOW + number)])
    assert set(read(pool)) == {"2", "3"}
    assert {field.split(b":")[0] for field in raw_redis.hkeys("offsider:errors:fields")} == {b"2", b"3"}


def test_a_group_that_is_not_seen_for_a_month_is_dropped(pool):
    error_groups.note(pool, [noted("dead", at=NOW - KEEP_SECONDS - 1)])
    error_groups.note(pool, [noted("beef")])
    assert set(read(pool)) == {"beef"}


def test_groups_are_forgotten_one_by_one_or_all(pool, raw_redis):
    error_groups.note(pool, [noted("a"), noted("b"), noted("c")])
    assert error_groups.delete(pool, ["a", "nobody"]) == 1
    assert error_groups.delete(pool, []) == 0
    assert set(read(pool)) == {"b", "c"}
    assert error_groups.clear(pool) == 2
    assert raw_redis.keys() == []


def test_a_group_deleted_during_the_search_is_omitted(pool):
    error_groups.note(pool, [noted("a")])
    assert error_groups.read(pool, [("gone", NOW)]) == []


def test_invalid_entries_are_omitted(pool, raw_redis):
    error_groups.note(pool, [noted("a"), noted("b")])
    raw_redis.zadd("offsider:errors", {b"\xff": 1, "not hex": 2, "c": 3})
    raw_redis.hset("offsider:errors:fields", mapping={"b:count": "many", "c:count": "1", "a:jid": b"\xff"})
    assert [(group.id, group.jid) for group in read(pool).values()] == [("a", "\ufffd")]


def test_nothing_is_written_of_nothing(pool, raw_redis):
    error_groups.note(pool, [])
    assert raw_redis.keys() == []
