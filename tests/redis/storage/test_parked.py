"""Parked jobs lie in the schedule; a small key says which kinds there are."""

from __future__ import annotations

import json
import time

import pytest

from offsider.core.payload import decode
from offsider.storage import parked
from offsider.storage.parked import LONGEST_SECONDS, Seen, Walk, Wanted
from tests.snapshot import snapshot

RESIZE = Wanted("shop.Resize", "5ca1ab1e")
SEEN = Seen(1_795_216_780.5, "media", "not declared here: é")


def job(jid: str, **fields: object) -> bytes:
    return json.dumps({"class": "J", "args": [], "jid": jid, **fields}, separators=(",", ":")).encode()


def test_what_was_wanted_is_known_for_a_quarter_of_an_hour_and_how_often_for_ever(pool, raw_redis):
    parked.note(pool, RESIZE, Seen(1.0, "media", "the first"), 2)
    raw_redis.expire("offsider:parked", 5)
    parked.note(pool, RESIZE, SEEN, 3)
    parked.note(pool, Wanted("é", ""), SEEN, 1)
    assert parked.kinds(pool) == {RESIZE: SEEN, Wanted("é", ""): SEEN}
    assert parked.counts(pool) == {"shop.Resize": 5, "é": 1}
    assert 800 < raw_redis.ttl("offsider:parked") <= 900
    assert raw_redis.ttl("offsider:parked:counts") == -1


def test_what_is_forgotten_is_wanted_no_more_and_stays_counted(pool, raw_redis):
    parked.note(pool, RESIZE, SEEN, 1)
    parked.forget(pool, RESIZE)
    assert parked.kinds(pool) == {}
    assert snapshot(raw_redis) == {"offsider:parked:counts": {b"shop.Resize": b"1"}}


def test_the_last_look_of_a_group_is_known_to_the_group_for_a_quarter_of_an_hour(pool, raw_redis):
    assert parked.last_walk(pool, "a1") == Walk("", 0, 0.0)
    parked.note_walk(pool, "a1", Walk("5ca1ab1e", 2, 1_795_216_780.5))
    assert parked.last_walk(pool, "a1") == Walk("5ca1ab1e", 2, 1_795_216_780.5)
    assert parked.last_walk(pool, "b2") == Walk()
    assert 800 < raw_redis.ttl("offsider:parked:walked:a1") <= 900


@pytest.mark.parametrize("value", ["no json", "[1]", '["a","b",1]', '["a",1,"b"]'])
def test_a_look_that_cannot_be_read_was_none(pool, raw_redis, value):
    raw_redis.set("offsider:parked:walked:a1", value)
    assert parked.last_walk(pool, "a1") == Walk()


def test_of_too_many_kinds_the_further_ones_are_left_out(pool, monkeypatch):
    monkeypatch.setattr(parked, "_MOST", 2)
    for name in ("a", "b", "c", "a"):
        parked.note(pool, Wanted(name, ""), SEEN, 1)
    assert {wanted.name for wanted in parked.kinds(pool)} == {"a", "b"}
    assert parked.counts(pool) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    "field, value",
    [
        (b'["a",""]', b"no json"),
        (b'["a",""]', b'["soon","q","r"]'),
        (b'["a",""]', b"[1]"),
        (b"no json", b'[1,"q","r"]'),
        (b"7", b'[1,"q","r"]'),
    ],
)
def test_what_cannot_be_read_is_left_out(pool, raw_redis, field, value):
    raw_redis.hset("offsider:parked", field, value)
    assert parked.kinds(pool) == {}


def test_only_what_is_due_within_the_longest_wait_is_read_and_tells_who_is_parked(pool, raw_redis):
    now = time.time()
    one, other, far, none = job("a", parked_at=1), job("b", parked_at=2), job("c", parked_at=3), job("d")
    raw_redis.zadd(
        "schedule", {none: now - 5, other: now + LONGEST_SECONDS, one: now - 1, far: now + 2 * LONGEST_SECONDS}
    )
    assert list(parked.each(pool)) == [none, one, other]
    assert [parked.is_parked(raw) for raw in (none, one)] == [False, True]
    raw_redis.zrem("schedule", far)
    assert list(parked.each(pool)) == [none, one, other]


def test_a_payload_tells_what_it_wants_and_since_when_it_is_parked():
    payload = decode(job("a", signature="5ca1ab1e", parked_at=1_500))
    assert (parked.wanted_by(payload), parked.parked_since(payload)) == (Wanted("J", "5ca1ab1e"), 1.5)
    for odd in (job("a"), job("a", signature=7, parked_at="x")):
        assert (parked.wanted_by(decode(odd)), parked.parked_since(decode(odd))) == (Wanted("J", ""), None)


def test_members_are_made_due_now_unless_they_are_or_have_gone(pool, raw_redis):
    now = time.time()
    raw_redis.zadd("schedule", {"later": now + 300, "due": now - 300})
    assert parked.hasten(pool, [b"later", b"due", b"gone"]) == 1
    scores = snapshot(raw_redis)["schedule"]
    assert set(scores) == {b"later", b"due"}
    assert scores[b"due"] == pytest.approx(now - 300)
    assert abs(scores[b"later"] - time.time()) < 30
