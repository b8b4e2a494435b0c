"""The walk finds every job that exists during the whole walk, even if the job moves."""

from __future__ import annotations

import json

import pytest

from offsider.ext.unique import places
from offsider.storage import owners
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.owners import Lists
from tests.redis.ext.unique.travels import Traveller

HELD = f"{DEFAULT_PREFIX}offsider:held"


def met(redis, step=places.STEP):
    return set().union(*places.walk(redis, step))


def payload(jid):
    return json.dumps({"class": "Hard", "args": [], "jid": jid}).encode()


def test_the_walk_finds_jobs_in_every_list_and_set(redis, raw_redis):
    raw_redis.sadd("queues", "a", "b")
    raw_redis.lpush("queue:a", payload("in-a"))
    raw_redis.lpush("queue:b", payload("in-b"))
    raw_redis.zadd("schedule", {payload("scheduled"): 4e9})
    raw_redis.zadd("retry", {payload("retried"): 4e9})
    raw_redis.zadd("dead", {payload("dead"): 1})
    owners.beat(redis, Lists("h:1:0123456789ab", {"c": ("a",)}), 60_000)
    raw_redis.lpush(redis.keys.working("h:1:0123456789ab", "c", "a"), payload("claimed"))
    assert met(redis) == {"in-a", "in-b", "scheduled", "retried", "claimed"}


def test_the_walk_finds_jobs_in_lists_of_extensions(redis, raw_redis):
    raw_redis.sadd(redis.keys.places, HELD)
    raw_redis.lpush(HELD, *(payload(f"j{number}") for number in range(2500)))
    assert met(redis, 100) == {f"j{number}" for number in range(2500)}


@pytest.mark.parametrize("at", range(8))
def test_the_walk_finds_a_job_that_leaves_a_list_of_an_extension(redis, at):
    traveller = Traveller(redis)
    traveller.claim()
    traveller.hold()
    seen = set()
    for number, step in enumerate(places.walk(redis, 10)):
        seen |= step
        if number == at:
            traveller.resume()
            traveller.claim()
    assert "traveller" in seen


def test_the_walk_reads_a_list_added_during_its_last_step(redis, raw_redis, monkeypatch):
    noted = places.queues.extension_lists
    calls = []

    def late(given):
        known = noted(given)
        if not calls:
            calls.append(1)
            raw_redis.sadd(redis.keys.places, HELD)
            raw_redis.lpush(HELD, payload("held"))
        return known

    monkeypatch.setattr(places.queues, "extension_lists", late)
    assert "held" in next(places.walk(redis))


def test_the_walk_finds_jobs_reported_as_running(redis, raw_redis):
    raw_redis.sadd("processes", "ruby:1:aa", "old:2:bb")
    raw_redis.hset("ruby:1:aa:work", "t1", json.dumps({"queue": "a", "payload": payload("seven").decode()}))
    raw_redis.hset("old:2:bb:workers", "t1", json.dumps({"queue": "a", "payload": {"jid": "six", "class": "X"}}))
    raw_redis.hset("old:2:bb:workers", "t2", b'no json, "jid":"odd"')
    raw_redis.hset("old:2:bb:workers", "t3", b"[]")
    assert met(redis) == {"seven", "six", "odd"}


def test_jids_are_found_in_any_json_formatting():
    assert places.jids_in([b'{"jid":"a"}', b'{"jid" : "b"}', b'{"args":["\\"jid\\":\\"c\\""]}', b"odd"]) == {"a", "b"}


def test_a_long_queue_is_read_in_steps(redis, raw_redis):
    raw_redis.sadd("queues", "a")
    raw_redis.lpush("queue:a", *(payload(f"j{number}") for number in range(2500)))
    raw_redis.zadd("schedule", {payload(f"s{number}"): number for number in range(1500)})
    expected = {f"j{number}" for number in range(2500)} | {f"s{number}" for number in range(1500)}
    assert met(redis, 100) == expected
    assert max(len(step) for step in places.walk(redis, 100)) <= places.NEXT_JOBS + 200


MOVES = [
    ("claim",),
    ("claim", "begin", "fail"),
    ("claim", "give_back"),
    ("claim", "give_back", "claim", "give_back"),
    ("claim", "put_off"),
    ("claim", "give_back", "claim", "put_off"),
    ("claim", "hold"),
    ("claim", "hold", "resume"),
    ("claim", "hold", "resume", "claim", "hold"),
]


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("at", range(8))
def test_the_walk_finds_a_job_that_moves_once(redis, moves, at):
    traveller = Traveller(redis)
    seen = set()
    for number, step in enumerate(places.walk(redis, 10)):
        seen |= step
        if number == at:
            for move in moves:
                getattr(traveller, move)()
    if "begin" not in moves or "traveller" in seen:
        assert "traveller" in seen


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("later", range(1, 5))
def test_the_walk_finds_a_job_that_is_claimed_and_put_off(redis, raw_redis, at, later):
    traveller = Traveller(redis)
    # After more jobs than are read together with the private lists.
    raw_redis.rpush("queue:default", *(payload(f"j{number}") for number in range(places.NEXT_JOBS + 10)))
    seen = set()
    for number, step in enumerate(places.walk(redis, 100)):
        seen |= step
        if number == at:
            traveller.claim()
        if number == at + later:
            traveller.put_off()
    assert "traveller" in seen


@pytest.mark.parametrize("first", ["schedule", "retry"])
@pytest.mark.parametrize("at", range(8))
def test_the_walk_finds_a_job_that_becomes_due(redis, first, at):
    traveller = Traveller(redis)
    traveller._move(redis.keys.prefix + first)
    seen = set()
    for number, step in enumerate(places.walk(redis, 10)):
        seen |= step
        if number == at:
            traveller.enqueue("low")
            traveller.claim()
    assert "traveller" in seen


def test_the_walk_reads_a_worker_added_during_its_last_step(redis, raw_redis, monkeypatch):
    raw_redis.sadd("queues", "a")
    registered = owners.registered
    calls = []

    def late(given):
        known = registered(given)
        if not calls:
            calls.append(1)
            owners.beat(redis, Lists("h:2:0123456789ab", {"c": ("a",)}), 60_000)
            raw_redis.lpush(redis.keys.working("h:2:0123456789ab", "c", "a"), payload("claimed"))
        return known

    monkeypatch.setattr(owners, "registered", late)
    assert "claimed" in next(places.walk(redis))
