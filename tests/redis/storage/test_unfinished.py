from __future__ import annotations

from offsider.storage import owners, queues, stats, working
from offsider.storage.owners import Lists
from offsider.storage.working import Owner


def test_jobs_in_queues_and_in_private_lists_are_counted(pool):
    for queue, raws in (("a", [b"1", b"2"]), ("b", [b"3"])):
        pool.pipeline(queues.push_commands(pool.keys, queue, raws))
    owners.beat(pool, Lists("me", {"default": ["a"]}), 60_000)
    assert stats.count_by_queue(pool) == {"a": 2, "b": 1}
    (entry,) = working.claim(pool, Owner("me", "default"), ["a"], 1)
    assert stats.count_by_queue(pool) == {"a": 1, "b": 1, "(running)": 1}
    working.acknowledge(pool, entry)
    assert stats.count_by_queue(pool) == {"a": 1, "b": 1}


def test_jobs_in_lists_of_extensions_are_counted(pool, raw_redis):
    raw_redis.sadd(pool.keys.places, *(f"{pool.keys.prefix}offsider:{name}" for name in "ab"))
    raw_redis.lpush("offsider:a", "1", "2")
    raw_redis.lpush("offsider:b", "3")
    pool.pipeline(queues.push_commands(pool.keys, "a", [b"4"]))
    assert stats.count_by_queue(pool) == {"a": 1, "(held)": 3}


def test_a_queue_created_between_two_reads_is_seen(pool, monkeypatch):
    found = queues.names(pool)

    def names(_pool):
        monkeypatch.undo()
        pool.pipeline(queues.push_commands(pool.keys, "new", [b"1"]))
        return found

    monkeypatch.setattr(queues, "names", names)
    assert stats.count_by_queue(pool) == {"new": 1}
