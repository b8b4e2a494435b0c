"""One search over running jobs, sets and queues, in chunks that report their progress."""

from __future__ import annotations

import json

import pytest

from offsider.inspector import Queue, RetrySet, search_everywhere
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.queue_walk import digest
from tests.redis.inspector.payloads import job

HELD = f"{DEFAULT_PREFIX}offsider:"


def through(text, config, **limits):
    """All chunks of a search."""
    chunks = [search_everywhere(text, config=config, **limits)]
    while chunks[-1].cursor:
        chunks.append(search_everywhere(text, chunks[-1].cursor, config=config, **limits))
        assert len(chunks) < 1_000
    return chunks


@pytest.fixture
def everywhere(raw_redis):
    """The same job at every place, among others."""
    raw_redis.sadd("processes", "a:1:x")
    raw_redis.hset("a:1:x", mapping={"info": "{}", "busy": 1})
    work = {"queue": "low", "payload": job(7).decode(), "run_at": 1}
    raw_redis.hset("a:1:x:work", "t1", json.dumps(work))
    for name in ("retry", "schedule", "dead"):
        raw_redis.zadd(name, {job(n): n + 0.5 for n in range(50)})
    raw_redis.sadd("queues", "low", "a|b", "empty")
    for name in ("low", "a|b"):
        raw_redis.lpush(f"queue:{name}", *map(job, range(50)))
    raw_redis.sadd("offsider:places", f"{HELD}b", f"{HELD}a", f"{HELD}empty")
    for name in ("a", "b"):
        raw_redis.lpush(f"{HELD}{name}", *map(job, range(50)))


WANTED = f"{7:024x}"
PLACES = ["busy", "retry", "schedule", "dead", "queue:a|b", "queue:low", f"held:{HELD}a", f"held:{HELD}b"]


@pytest.mark.parametrize("budget_ms", [1_000, 0])
def test_every_place_is_searched_in_order(config, everywhere, budget_ms):
    chunks = through(WANTED, config, budget_ms=budget_ms)
    found = [one for chunk in chunks for one in chunk.entries]
    assert [one.where for one in found] == PLACES
    assert {one.record.args[0] for one in found} == {7}
    assert [one.key for one in found] == [WANTED, *[f"7.5|{WANTED}|{digest(job(7))}"] * 3, *[f"7|{WANTED}"] * 4]
    assert {chunk.total for chunk in chunks} == {351}
    assert 351 <= sum(chunk.scanned for chunk in chunks) <= 600
    assert (len(chunks) == 1) == (budget_ms > 0)


def test_the_key_leads_back_to_the_job(config, everywhere):
    found = {one.where: one for chunk in through(WANTED, config) for one in chunk.entries}
    entry = RetrySet(config).entry(found["retry"].key)
    assert entry is not None
    assert entry.args == [7]
    position, _, jid = found["queue:low"].key.partition("|")
    (record,) = Queue("low", config).page(int(position), 1)
    assert record.jid == jid


def test_a_search_that_has_found_enough_can_resume(config, everywhere):
    first, *others = through('"args":[', config, budget_ms=10_000, most=30)
    assert 30 <= len(first.entries) <= 60
    found = [one for chunk in (first, *others) for one in chunk.entries]
    assert len(found) == 351
    assert all(len(chunk.entries) <= 60 for chunk in others)


def test_a_queue_deleted_during_the_search_is_skipped(config, everywhere, raw_redis):
    raw_redis.srem("queues", "a|b")
    found = search_everywhere(WANTED, "queue:a|b|3", 1_000, config)
    assert [one.where for one in found.entries] == ["queue:low", f"held:{HELD}a", f"held:{HELD}b"]


def test_empty_queues_are_not_asked_one_by_one(config, everywhere, monkeypatch):
    asked: list[str] = []
    length = Queue.__len__
    monkeypatch.setattr(Queue, "__len__", lambda queue: asked.append(queue.name) or length(queue))
    assert len(search_everywhere("7", config=config, budget_ms=10_000).entries) > 10
    assert "empty" not in asked


def test_an_extension_list_deleted_during_the_search_is_skipped(config, everywhere, raw_redis):
    raw_redis.delete(f"{HELD}a")
    found = search_everywhere(WANTED, f"held:{HELD}a|3", 1_000, config)
    assert [one.where for one in found.entries] == [f"held:{HELD}b"]


@pytest.mark.parametrize("cursor", ["x", "|", "retry", "busy|x", "nowhere|5"])
def test_an_invalid_cursor_starts_from_the_beginning(config, everywhere, cursor):
    found = search_everywhere(WANTED, cursor, 1_000, config)
    assert [one.where for one in found.entries] == PLACES


def test_nothing_is_found_by_no_text_and_nothing_where_nothing_is(config, everywhere, raw_redis):
    assert search_everywhere("", config=config).entries == []
    assert search_everywhere("nobody", budget_ms=1_000, config=config).entries == []
    raw_redis.flushall()
    empty = search_everywhere("x", config=config)
    assert (empty.entries, empty.scanned, empty.total, empty.cursor) == ([], 0, 0, "")


def test_the_default_configuration_is_that_of_this_process(default_config, everywhere):
    assert len(search_everywhere(WANTED, budget_ms=1_000).entries) == 8
