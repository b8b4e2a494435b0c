"""The locks in Redis: taken, released by their job alone, and found."""

from __future__ import annotations

import pytest

from offsider.ext.unique import store
from tests.waiting import wait_for


def take(redis, lock="l1", jid="j1", *, name="Hard", queue="default", raw=b"job", life=60_000, again=False, old=""):
    held = store.text(jid, name, 1000, may_run_again=again)
    keys = redis.keys
    names = [store.index_key(keys), keys.queues, keys.queue(queue), store.lock_key(keys, lock)]
    reply = redis.run(store.STORE, names, [queue, old, life, held, raw, "", "unique"])
    return "" if reply is None else reply[0].decode()


def test_a_lock_is_acquired_with_its_job_or_not_at_all(redis, raw_redis):
    assert take(redis) == ""
    assert take(redis, jid="j2") == "j1"
    assert raw_redis.lrange("queue:default", 0, -1) == [b"job"]
    (held,) = store.read(redis, ["l1"])
    assert held is not None
    assert (held.jid, held.name, held.taken_ms, held.again) == ("j1", "Hard", 1000, False)
    assert 0 < held.left_ms <= 60_000


def test_a_job_that_holds_the_lock_already_is_not_stored_twice(redis, raw_redis):
    assert take(redis) == take(redis) == ""
    assert raw_redis.llen("queue:default") == 1


def test_only_its_job_frees_a_lock(redis, raw_redis):
    take(redis)
    assert store.release(redis, "l1", "j2") == store.NOT_OURS
    assert store.release(redis, "l1", "j1") == store.FREED
    assert store.release(redis, "l1", "j1") == store.NOT_OURS
    assert not raw_redis.exists("offsider:unique", "offsider:unique:l1")


def test_a_lock_is_handed_over_to_the_job_that_follows(redis, raw_redis):
    take(redis, again=True)
    assert take(redis, jid="j2", again=True) == "j1"
    assert store.release(redis, "l1", "j1", may_run_again=True) == store.RUN_AGAIN
    assert take(redis, jid="j3", old="j1") == ""
    (held,) = store.read(redis, ["l1"])
    assert held is not None
    assert (held.jid, held.again) == ("j3", False)
    assert store.release(redis, "l1", "j1") == store.NOT_OURS
    assert raw_redis.llen("queue:default") == 2


def test_duplicates_request_another_run_only_if_enabled(redis):
    take(redis)
    take(redis, jid="j2")
    assert store.release(redis, "l1", "j1", may_run_again=True) == store.FREED
    take(redis, again=True)
    assert store.release(redis, "l1", "j1", may_run_again=True) == store.FREED


def test_a_duplicate_keeps_the_ttl(redis):
    take(redis, again=True, life=5000)
    take(redis, jid="j2", again=True, life=90_000)
    (held,) = store.read(redis, ["l1"])
    assert held is not None
    assert held.again
    assert 0 < held.left_ms <= 5000


def test_expired_locks_are_not_listed_and_the_next_push_removes_their_names(redis, raw_redis):
    for number in range(3):
        take(redis, f"l{number}", f"j{number}", life=500)
    wait_for(lambda: store.count(redis) == 0)
    assert raw_redis.zcard("offsider:unique") == 3
    assert [*store.pages(redis)] == [[]]
    take(redis, "l4", "j4")
    assert raw_redis.zrange("offsider:unique", 0, -1) == [b"l4"]
    assert store.count(redis) == 1


def test_all_locks_are_listed_in_pages(redis):
    for number in range(1500):
        take(redis, f"l{number}", f"j{number}")
    met = [held.jid for page in store.pages(redis, 100) for held in page]
    assert set(met) == {f"j{number}" for number in range(1500)}


def test_an_invalid_lock_value_has_no_holder(redis, raw_redis):
    raw_redis.set("offsider:unique:odd", "who knows")
    raw_redis.zadd("offsider:unique", {"odd": 4e12})
    assert store.read(redis, ["odd"]) == [None]
    assert store.release(redis, "odd", "who") == store.NOT_OURS
    assert store.read(redis, []) == []


@pytest.mark.parametrize("name", ["My Class", "a\nb", "", "Ärger"])
def test_any_class_name_survives_the_stored_form(redis, name):
    take(redis, name=name)
    (held,) = store.read(redis, ["l1"])
    assert held is not None
    assert held.name == name
