"""Strikes: counted where a job is taken back from the dead, and nowhere else (rules 3, 6)."""

import hashlib

import pytest

from offsider.core.errors import Fenced, RedisRefused
from offsider.core.payload import decode, encode, interrupted
from offsider.storage import owners, strikes
from offsider.storage.owners import Lists
from offsider.storage.working import DeadSetLimits, Owner, PrivateListEntry
from tests.snapshot import snapshot

JID = "a" * 24
RAW = encode({"class": "Pill", "args": [], "jid": JID})
OTHER = encode({"class": "Good", "args": [], "jid": "b" * 24})
LIMITS = DeadSetLimits()
DAYS = 86_400


class Corpse:
    """A dead owner with jobs, fenced before its jobs are reclaimed."""

    def __init__(self, pool, raw_redis, number: int = 1) -> None:
        self.pool, self.raw_redis = pool, raw_redis
        self.identity = f"host:{number}:aaaaaaaaaaaa"
        self.owner = Owner(self.identity, "default")
        self.list = pool.keys.working(self.identity, "default", "low")
        self.mark = pool.keys.fenced(self.identity)

    def holds(self, *raws: bytes) -> None:
        self.raw_redis.lpush(self.list, *raws)

    def fence(self) -> None:
        assert owners.fence(self.pool, Lists(self.identity, {"default": ("low",)}))

    def entry(self, raw: bytes) -> PrivateListEntry:
        return PrivateListEntry(self.owner, "low", raw)

    def reclaim(self, *raws: bytes) -> list[bool]:
        return strikes.reclaim(self.pool, [(self.entry(raw), raw + b" ") for raw in raws])


@pytest.fixture
def corpse(pool, raw_redis) -> Corpse:
    return Corpse(pool, raw_redis)


def key(jid: str = JID) -> str:
    return f"offsider:strikes:{jid}"


# ------------------------------------------------------------------------------------- reclaim


def test_a_reclaimed_job_gets_a_strike_with_the_dead_owner(pool, raw_redis, corpse):
    corpse.holds(RAW)
    corpse.fence()
    assert corpse.reclaim(RAW) == [True]
    assert raw_redis.lrange("queue:low", 0, -1) == [RAW + b" "]
    assert not raw_redis.exists(corpse.list)
    assert strikes.died_with(pool, RAW) == [corpse.identity]
    assert 72 * 3600 - 5 < raw_redis.ttl(key()) <= 72 * 3600
    assert raw_redis.get(corpse.mark) == b"1 0"
    assert raw_redis.ttl(corpse.mark) > 0


def test_one_process_gives_a_job_one_strike(pool, raw_redis, corpse):
    corpse.holds(RAW, RAW)
    corpse.fence()
    assert corpse.reclaim(RAW, RAW) == [True, True]
    assert strikes.died_with(pool, RAW) == [corpse.identity]


def test_jobs_left_by_a_late_script_are_not_blamed_for_the_death(pool, corpse):
    corpse.holds(RAW)
    corpse.fence()
    corpse.reclaim(RAW)
    corpse.holds(OTHER)
    assert corpse.reclaim(OTHER) == [True]
    assert strikes.died_with(pool, OTHER) == []


def test_an_empty_mark_causes_no_strike(pool, raw_redis, corpse):
    corpse.holds(RAW)
    raw_redis.set(corpse.mark, "1")
    assert corpse.reclaim(RAW) == [True]
    assert strikes.died_with(pool, RAW) == []
    assert not strikes.died_alone(pool, corpse.identity)


def test_a_missing_job_gets_no_strike(pool, raw_redis, corpse):
    corpse.holds(OTHER)
    corpse.fence()
    assert corpse.reclaim(RAW) == [False]
    assert strikes.died_with(pool, RAW) == []
    assert not raw_redis.exists("queue:low")


def test_no_job_is_reclaimed_from_an_owner_that_is_not_fenced(raw_redis, corpse):
    corpse.holds(RAW)
    before = snapshot(raw_redis)
    with pytest.raises(Fenced):
        corpse.reclaim(RAW)
    with pytest.raises(Fenced):
        strikes.bury(corpse.pool, corpse.entry(RAW), RAW, LIMITS)
    assert snapshot(raw_redis) == before


def test_a_job_that_cannot_move_stays_without_a_strike_and_blocks_no_other(pool, raw_redis, corpse):
    corpse.holds(RAW)
    raw_redis.lpush(pool.keys.working(corpse.identity, "default", "high"), OTHER)
    corpse.fence()
    raw_redis.set("queue:low", "wrong")
    other = PrivateListEntry(corpse.owner, "high", OTHER)
    assert strikes.reclaim(pool, [(corpse.entry(RAW), RAW), (other, OTHER)]) == [False, True]
    assert raw_redis.lrange(corpse.list, 0, -1) == [RAW]
    assert strikes.died_with(pool, RAW) == []


def test_strikes_of_the_wrong_type_keep_no_job_from_its_queue(raw_redis, corpse):
    raw_redis.set(key(), "wrong")
    corpse.holds(RAW)
    corpse.fence()
    assert corpse.reclaim(RAW) == [True]


def test_a_strike_counts_for_three_days_by_the_clock_of_the_server(pool, raw_redis, corpse):
    now = raw_redis.time()[0]
    raw_redis.zadd(key(), {"long ago": now - 3 * DAYS - 5, "lately": now - 3 * DAYS + 60})
    assert strikes.died_with(pool, RAW) == ["lately"]
    corpse.holds(RAW)
    corpse.fence()
    corpse.reclaim(RAW)
    assert strikes.died_with(pool, RAW) == ["lately", corpse.identity]
    assert raw_redis.zcard(key()) == 2


# ---------------------------------------------------------------------------------------- identity


def test_a_job_without_a_jid_is_identified_by_its_constant_keys(pool, raw_redis, corpse):
    raw = b'{"class": "Foreign", "args": [1]}'
    again = interrupted(interrupted(raw))
    corpse.holds(raw)
    corpse.fence()
    corpse.reclaim(raw)
    assert strikes.died_with(pool, again) == [corpse.identity]
    digest = hashlib.sha256(encode(decode(raw))).hexdigest()
    assert raw_redis.exists(key(digest))


def test_invalid_bytes_are_identified_by_themselves(pool, raw_redis, corpse):
    corpse.holds(b"no job")
    corpse.fence()
    corpse.reclaim(b"no job")
    assert strikes.died_with(pool, b"no job") == [corpse.identity]
    assert raw_redis.exists(key(hashlib.sha256(b"no job").hexdigest()))


# --------------------------------------------------------------------------------------- alone


def test_a_job_was_alone_if_its_owner_had_no_other(pool, corpse):
    corpse.holds(RAW)
    corpse.fence()
    assert strikes.died_alone(pool, corpse.identity)
    corpse.reclaim(RAW)
    assert not strikes.died_alone(pool, corpse.identity)


@pytest.mark.parametrize("raws", [(), (RAW, OTHER)])
def test_with_several_or_no_jobs_none_was_alone(pool, corpse, raws):
    if raws:
        corpse.holds(*raws)
    corpse.fence()
    assert not strikes.died_alone(pool, corpse.identity)


def test_an_owner_that_is_not_fenced_is_not_dead(pool, corpse):
    assert not strikes.died_alone(pool, corpse.identity)


# ---------------------------------------------------------------------------------------- bury


def test_a_buried_job_is_in_the_dead_set_with_its_last_strike(pool, raw_redis, corpse):
    corpse.holds(RAW)
    corpse.fence()
    assert strikes.bury(pool, corpse.entry(RAW), b"buried", LIMITS)
    ((member, score),) = raw_redis.zrange("dead", 0, -1, withscores=True)
    assert member == b"buried"
    assert score == pytest.approx(raw_redis.time()[0], abs=5)
    assert not raw_redis.exists(corpse.list)
    assert strikes.died_with(pool, RAW) == [corpse.identity]
    assert not strikes.died_alone(pool, corpse.identity)
    assert not strikes.bury(pool, corpse.entry(RAW), b"buried", LIMITS), "the second one is too late"


def test_a_dead_set_of_the_wrong_type_leaves_the_job_in_place(pool, raw_redis, corpse):
    raw_redis.set("dead", "wrong")
    corpse.holds(RAW)
    corpse.fence()
    before = snapshot(raw_redis)
    with pytest.raises(RedisRefused):
        strikes.bury(pool, corpse.entry(RAW), RAW, LIMITS)
    assert snapshot(raw_redis) == before
