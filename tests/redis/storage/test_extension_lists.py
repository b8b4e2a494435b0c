"""Lists of extensions that contain jobs are found by every search for jobs."""

from __future__ import annotations

import pytest

from offsider.storage import queues
from offsider.storage.queue_walk import Place, read_on


def test_without_extensions_there_is_no_such_list(pool):
    assert queues.extension_lists(pool) == []
    assert queues.extension_list_lengths(pool) == {}


@pytest.mark.not_on_cluster("the test uses keys without the hash tag")
def test_lists_that_were_noted_are_counted_and_empty_ones_are_not(pool, raw_redis):
    raw_redis.sadd(pool.keys.places, "offsider:b", "offsider:a", "offsider:empty")
    raw_redis.lpush("offsider:a", "1", "2")
    raw_redis.lpush("offsider:b", "3")
    assert queues.extension_lists(pool) == ["offsider:a", "offsider:b", "offsider:empty"]
    assert queues.extension_list_lengths(pool) == {"offsider:a": 2, "offsider:b": 1}


@pytest.mark.not_on_cluster("the test uses keys without the hash tag")
def test_such_a_list_is_walked_through_as_a_queue_is(pool, raw_redis):
    raw_redis.lpush("offsider:a", "1", "2", "3")
    start, first = read_on(pool, "offsider:a", Place(), 2)
    place = Place().after(start + len(first), first)
    raw_redis.rpop("offsider:a")
    assert (first, read_on(pool, "offsider:a", place, 2)) == ([b"1", b"2"], (1, [b"3"]))
