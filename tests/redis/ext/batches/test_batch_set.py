"""Batches of a server: their order, pages of them, and those with a tag."""

from __future__ import annotations

import pytest

from offsider.ext.batches import BatchSet, store

X = {"class": "X", "args": []}
STORED = 300


@pytest.fixture
def batches(config):
    return BatchSet(config)


@pytest.fixture
def many(redis, raw_redis):
    """Stores batches as their script does: every hundredth has the tag ``rare``."""
    bids = [f"bid{number:04}" for number in range(STORED)]
    for number, bid in enumerate(bids):
        tags = '["import", "rare"]' if number % 100 == 0 else '["import"]'
        raw_redis.hset(f"b-{bid}", mapping={"tags": tags, "data": "{}", "queues": "[]", "created_at": number})
    raw_redis.zadd("batches", {bid: store.clocks.look(redis)[0] + 1000 + at for at, bid in enumerate(bids)})
    return bids


def bids_of(statuses):
    return [status.bid for status in statuses]


def test_batches_with_dead_jobs_are_first_then_unfinished_then_finished_ones(batches, make, empty, client, tell):
    finished = empty()
    with make(description="waits") as unfinished:
        client.push(X)
    with make() as dead:
        jid = client.push(X)
    tell(dead, "died", jid)
    assert bids_of(batches) == [dead.bid, unfinished.bid, finished]
    assert len(batches) == 3
    assert [(status.description, status.pending) for status in batches.page(1, 1)] == [("waits", 1)]


def test_each_batch_is_on_one_page(batches, many):
    pages = [bids_of(batches.page(start, 70)) for start in range(0, STORED, 70)]
    assert list(map(len, pages)) == [70, 70, 70, 70, 20]
    assert [bid for page in pages for bid in page] == many[::-1] == bids_of(batches)
    assert batches.page(STORED) == batches.page(0, 0) == []


def test_expired_batches_are_not_counted(batches, empty, raw_redis):
    for _ in range(3):
        bid = empty()
    raw_redis.zadd("batches", {bid: 1e9})
    raw_redis.delete(f"b-{bid}")
    assert len(batches) == len(list(batches)) == 2


def test_all_batches_with_a_tag_are_found_once(batches, many, empty):
    other = empty(tags=["rare", "other"])
    assert sorted(bids_of(batches.tagged("rare"))) == sorted([*many[::100], other])
    assert len(bids_of(batches.tagged("import"))) == STORED
    assert bids_of(batches.tagged("other")) == [other]
    for unknown in ("rar", "Rare", "", "*", '"rare"'):
        assert list(batches.tagged(unknown)) == []


def test_a_scan_ends_after_its_time_and_continues_from_its_cursor(batches, many):
    chunk = batches.scan("rare", budget_ms=0)
    assert 0 < chunk.scanned < chunk.total == STORED
    found, scanned = bids_of(chunk.entries), chunk.scanned
    while not chunk.complete:
        chunk = batches.scan("rare", chunk.cursor, budget_ms=0)
        found += bids_of(chunk.entries)
        scanned += chunk.scanned
    assert set(found) == set(many[::100])
    assert scanned >= STORED
    assert batches.scan("rare", "no cursor").total == STORED


def test_malformed_tags_are_no_tags(batches, empty, raw_redis):
    malformed = [b"\xff", b"7", b'{"a": 1}', b'"nightly"', b"[", b"", b"[" * 100_000]
    for stored in malformed:
        raw_redis.hset(f"b-{empty()}", mapping={"tags": stored, "data": stored})
    bid = empty()
    raw_redis.hset(f"b-{bid}", "tags", '[1, null, ["nightly"], "nightly"]')
    assert bids_of(batches.tagged("nightly")) == [bid]
    assert [status.tags for status in batches if status.tags] == [("nightly",)]
