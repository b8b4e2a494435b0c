"""The state of an iteration, as Ruby reads and writes it."""

import pytest

from offsider.core.errors import Fenced
from offsider.storage import iteration
from offsider.storage.effects import Together
from offsider.storage.iteration import KEEP_SECONDS, IterationState
from offsider.storage.working import Owner, PrivateListEntry, acknowledge, put_back
from tests.snapshot import snapshot

IDENTITY = "host:1:aaaaaaaaaaaa"
STATE = IterationState(2, '{"id":7}', 1.5)
ENTRY = PrivateListEntry(Owner(IDENTITY, "default"), "low", b'{"jid":"1"}')


def test_the_state_is_that_of_ruby(pool, raw_redis):
    assert iteration.read(pool, "1") is None
    assert not iteration.keep(pool, "1", IDENTITY, STATE)
    assert snapshot(raw_redis) == {"it-1": {b"ex": b"2", b"c": b'{"id":7}', b"rt": b"1.5"}}
    assert iteration.read(pool, "1") == STATE
    raw_redis.hset("it-2", mapping={"ex": "1", "c": "null", "rt": "0.25"})
    assert iteration.read(pool, "2") == IterationState(1, "", 0.25)
    assert not iteration.keep(pool, "2", IDENTITY, IterationState(has_ended=True))
    assert iteration.read(pool, "2") == IterationState(has_ended=True)


def test_the_state_lives_as_long_as_the_job_and_at_least_as_in_ruby(pool, raw_redis):
    iteration.keep(pool, "1", IDENTITY, STATE)
    assert KEEP_SECONDS - 5 < raw_redis.ttl("it-1") <= KEEP_SECONDS
    for life, kept in ((KEEP_SECONDS * 6, KEEP_SECONDS * 6), (60, KEEP_SECONDS)):
        (effect,) = iteration.keeping(pool.keys, "1", IDENTITY, lambda: STATE, lambda life=life: life).applied(
            None, "dead"
        )
        pool.run(effect.script, effect.keys, effect.arguments)
        assert kept - 5 < raw_redis.ttl("it-1") <= kept


def test_a_cancellation_is_read_when_a_cursor_is_stored(pool, raw_redis):
    iteration.cancel(pool, "1")
    assert iteration.read(pool, "1") == IterationState(is_cancelled=True)
    assert abs(float(raw_redis.hget("it-1", "cancelled")) - raw_redis.time()[0]) < 5
    raw_redis.hset("it-1", "cancelled", 1)
    iteration.cancel(pool, "1")
    assert raw_redis.hget("it-1", "cancelled") == b"1"
    assert iteration.keep(pool, "1", IDENTITY, STATE)
    assert raw_redis.ttl("it-1") > 0


@pytest.mark.parametrize("odd", ["text", "nan", "", "[]"])
def test_odd_fields_are_no_state(pool, raw_redis, odd):
    raw_redis.hset("it-1", mapping={"ex": odd, "c": odd, "rt": odd, "cancelled": odd})
    assert iteration.read(pool, "1") == IterationState(cursor=odd, is_cancelled=True)
    assert iteration.keep(pool, "1", IDENTITY, STATE)


def test_a_fenced_process_stores_nothing(pool, raw_redis):
    raw_redis.set(pool.keys.fenced(IDENTITY), 1)
    with pytest.raises(Fenced):
        iteration.keep(pool, "1", IDENTITY, STATE)
    assert not raw_redis.exists("it-1")


@pytest.mark.parametrize("goes", ["gone", "queue"])
def test_the_outcome_stores_the_cursor_or_deletes_it(pool, raw_redis, goes):
    iteration.keep(pool, "1", IDENTITY, IterationState(1))
    raw_redis.lpush(pool.keys.working(IDENTITY, "default", "low"), ENTRY.raw)
    effects = iteration.keeping(pool.keys, "1", IDENTITY, lambda: STATE, lambda: 60).applied(None, goes)
    together = Together(pool, effects, jids=["1"])
    if goes == "gone":
        assert acknowledge(together, ENTRY)
        assert iteration.read(pool, "1") is None
    else:
        assert put_back(together, [(ENTRY, b'{"jid":"1","enqueued_at":1}')]) == [True]
        assert iteration.read(pool, "1") == STATE
    assert together.replies == [0]


def test_an_outcome_that_another_process_has_written_keeps_its_cursor(pool, raw_redis):
    iteration.keep(pool, "1", IDENTITY, STATE)
    effects = iteration.keeping(pool.keys, "1", IDENTITY, lambda: IterationState(9), lambda: 60).applied(None, "gone")
    assert not acknowledge(Together(pool, effects, jids=["1"]), ENTRY)
    assert iteration.read(pool, "1") == STATE
