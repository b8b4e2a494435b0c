"""Lists of extensions that contain jobs are found by every search for jobs."""

from __future__ import annotations

from offsider.storage import queues
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.queue_walk import Position, read_on

A, B, EMPTY = (f"{DEFAULT_PREFIX}offsider:{name}" for name in ("a", "b", "empty"))


def test_without_extensions_there_is_no_such_list(pool):
    assert queues.extension_lists(pool) == []
    assert queues.extension_list_lengths(pool) == {}


def test_lists_that_were_noted_are_counted_and_empty_ones_are_not(pool, raw_redis):
    raw_redis.sadd(pool.keys.places, B, A, EMPTY)
    raw_redis.lpush(A, "1", "2")
    raw_redis.lpush(B, "3")
    assert queues.extension_lists(pool) == [A, B, EMPTY]
    assert queues.extension_list_lengths(pool) == {A: 2, B: 1}


def test_such_a_list_is_walked_through_as_a_queue_is(pool, raw_redis):
    raw_redis.lpush(A, "1", "2", "3")
    start, first = read_on(pool, A, Position(), 2)
    place = Position().after(start + len(first), first)
    raw_redis.rpop(A)
    assert (first, read_on(pool, A, place, 2)) == ([b"1", b"2"], (1, [b"3"]))
