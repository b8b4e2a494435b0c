"""Stranded jobs wait in the schedule; a small hash has the reason for each class."""

from __future__ import annotations

import json
import time

import pytest

from offsider.core.payload import decode, forget_stranded, is_stranded
from offsider.storage import stranded
from offsider.storage.stranded import MAX_DELAY_SECONDS
from tests.snapshot import snapshot


def job(jid: str, **fields: object) -> bytes:
    return json.dumps({"class": "J", "args": [], "jid": jid, **fields}, separators=(",", ":")).encode()


def test_reasons_expire_after_a_quarter_of_an_hour_and_counts_never(pool, raw_redis):
    assert not stranded.is_any(pool)
    stranded.note(pool, "shop.Resize", "the first")
    raw_redis.expire("offsider:stranded", 5)
    stranded.note(pool, "shop.Resize", "not declared: é")
    stranded.note(pool, "é", "other parameters")
    assert stranded.is_any(pool)
    assert stranded.reasons(pool) == {"shop.Resize": "not declared: é", "é": "other parameters"}
    assert stranded.counts(pool) == {"shop.Resize": 2, "é": 1}
    assert 800 < raw_redis.ttl("offsider:stranded") <= 900
    assert raw_redis.ttl("offsider:stranded:counts") == -1


def test_classes_are_bounded(pool, monkeypatch):
    monkeypatch.setattr(stranded, "_MAX_CLASSES", 2)
    for name in ("a", "b", "c", "a"):
        stranded.note(pool, name, "not declared")
    assert stranded.reasons(pool) == {"c": "not declared", "a": "not declared"}
    assert stranded.counts(pool) == {"a": 2, "b": 1}


def test_hand_overs_are_counted_by_attempt_for_an_hour_from_the_first_on(pool, raw_redis):
    count, seconds = stranded.count_hand_over(pool, "a", 0)
    assert (count, seconds < 5) == (1, True)
    raw_redis.expire("offsider:handed-on:a:0", 3600 - 90)
    count, seconds = stranded.count_hand_over(pool, "a", 0)
    assert (count, 89 <= seconds < 100) == (2, True)
    assert stranded.count_hand_over(pool, "a", 1)[0] == 1
    assert snapshot(raw_redis) == {"offsider:handed-on:a:0": b"2", "offsider:handed-on:a:1": b"1"}
    assert raw_redis.ttl("offsider:handed-on:a:0") <= 3600 - 90


def test_only_jobs_due_within_the_longest_wait_are_read(pool, raw_redis):
    now = time.time()
    one, old, far, none = job("a", stranded_at=1), job("b", stranded_at=2), job("c", stranded_at=3), job("d")
    raw_redis.zadd(
        "schedule", {none: now - 5, old: now + MAX_DELAY_SECONDS, one: now - 1, far: now + 2 * MAX_DELAY_SECONDS}
    )
    assert list(stranded.each(pool)) == [none, one, old]
    assert [is_stranded(raw) for raw in (none, one, old)] == [False, True, True]
    raw_redis.zrem("schedule", far)
    assert list(stranded.each(pool)) == [none, one, old]


@pytest.mark.parametrize(
    "fields, since",
    [
        ({"stranded_at": 1_500}, 1.5),
        ({"stranded_at": 1_500, "failed_at": 1_000}, 1.5),
        ({"stranded_at": 1_500, "failed_at": 1_600}, None),
        ({"stranded_at": 1_500, "failed_at": 1_000, "retried_at": 1_600}, None),
        ({"stranded_at": "x"}, None),
        ({}, None),
    ],
)
def test_a_payload_has_its_stranded_time_unless_it_has_run_since(fields, since):
    assert stranded.stranded_since(decode(job("a", **fields))) == since


def test_only_the_mark_is_removed():
    payload = decode(job("a", stranded_at=1, custom=4))
    forget_stranded(payload)
    assert payload == decode(job("a", custom=4))


def test_future_members_that_still_exist_become_due(pool, raw_redis):
    now = time.time()
    raw_redis.zadd("schedule", {"later": now + 300, "due": now - 300})
    assert stranded.hasten(pool, [b"later", b"due", b"gone"]) == 1
    scores = snapshot(raw_redis)["schedule"]
    assert set(scores) == {b"later", b"due"}
    assert scores[b"due"] == pytest.approx(now - 300)
    assert abs(scores[b"later"] - time.time()) < 30
