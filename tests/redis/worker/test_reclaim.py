"""The jobs of one dead owner: fenced first, then moved, each reported; poison pills apart (rules 2, 3, 5, 6)."""

from __future__ import annotations

import logging

import pytest

from offsider.core.payload import decode, encode, interrupted
from offsider.storage import owners, strikes, working
from offsider.storage.owners import Lists
from offsider.worker.alive.reclaim import reclaim

IDENTITY = "host:2:dddddddddddd"
LISTS = Lists(IDENTITY, {"default": ("high", "low")})
HIGH, LOW = (f"offsider:working:{IDENTITY}:default:{queue}" for queue in ("high", "low"))
ALIVE, FENCED = f"offsider:alive:{IDENTITY}", f"offsider:fenced:{IDENTITY}"


def payload(number: int, **extra) -> bytes:
    return encode({"class": "HardJob", "args": [number], "jid": f"{number:024x}", "queue": "low"} | extra)


@pytest.fixture
def redis(parts):
    return parts.redis


def test_an_owner_with_heartbeats_is_left_alone(redis, raw_redis):
    raw_redis.lpush(LOW, payload(1))
    raw_redis.set(ALIVE, 1)
    assert reclaim(redis, LISTS) is None
    assert not raw_redis.exists(FENCED)
    assert raw_redis.llen(LOW) == 1


def test_a_death_that_was_seen_needs_no_silence(redis, raw_redis, caplog):
    raw_redis.lpush(LOW, payload(1), payload(2))
    raw_redis.lpush(HIGH, payload(3))
    raw_redis.set(ALIVE, 1)
    with caplog.at_level(logging.WARNING, "offsider"):
        assert reclaim(redis, LISTS, proven=True) == 3
    assert [decode(raw)["args"] for raw in reversed(raw_redis.lrange("queue:low", 0, -1))] == [[1], [2]]
    assert raw_redis.llen("queue:high") == 1
    assert raw_redis.exists(FENCED)
    assert not raw_redis.exists(ALIVE, LOW, HIGH)
    assert f"{IDENTITY} is dead; requeued its 3 jobs" in caplog.text


def test_each_job_is_reported_with_its_stored_bytes(redis, raw_redis):
    reported = []
    raw_redis.lpush(LOW, payload(1), b"no job")
    reclaim(redis, LISTS, announce=reported.append)
    assert {news.raw for news in reported} == set(raw_redis.lrange("queue:low", 0, -1))
    assert sorted((news.queue, news.identity, news.interrupted_count) for news in reported) == [
        ("low", IDENTITY, 0),
        ("low", IDENTITY, 1),
    ]


def test_a_dead_process_and_its_work_are_removed_from_the_registry(redis, raw_redis):
    raw_redis.lpush(LOW, payload(1))
    raw_redis.sadd("processes", IDENTITY, "ruby:1:eeeeeeeeeeee")
    for key in (IDENTITY, f"{IDENTITY}:work", f"{IDENTITY}:workers"):
        raw_redis.hset(key, "field", "value")
    raw_redis.set(f"offsider:classes:{IDENTITY}", "{}")
    reclaim(redis, LISTS, proven=True)
    assert raw_redis.smembers("processes") == {b"ruby:1:eeeeeeeeeeee"}
    assert raw_redis.keys(f"*{IDENTITY}*") == [f"offsider:fenced:{IDENTITY}".encode()]


def test_an_owner_without_jobs_is_fenced_silently(redis, raw_redis, caplog):
    with caplog.at_level(logging.WARNING, "offsider"):
        assert reclaim(redis, LISTS) == 0
    assert raw_redis.exists(FENCED)
    assert not caplog.text


def test_a_second_call_requeues_jobs_that_the_first_could_not(redis, raw_redis):
    raw_redis.lpush(LOW, payload(1))
    raw_redis.set("queue:low", "wrong")
    assert reclaim(redis, LISTS, proven=True) == 0
    raw_redis.delete("queue:low")
    raw_redis.set(ALIVE, 1)
    assert reclaim(redis, LISTS) == 1, "it is fenced: no beat of it counts any more"


# --------------------------------------------------------------------------------- poison pills


class Deaths:
    """Owners that die one after the other with a job, and the fate of the job."""

    def __init__(self, redis, raw_redis) -> None:
        self.redis, self.raw_redis = redis, raw_redis
        self.buried: list = []
        self.count = 0

    def die(self, *companions: bytes, bury: bool = True, **options) -> int | None:
        """The next owner claims the job, and others, and dies."""
        self.count += 1
        lists = Lists(f"host:{self.count}:dddddddddddd", {"default": ("low",), "slow": ("high",)})
        mine = self.redis.keys.working(lists.identity, "default", "low")
        raw = self.raw_redis.rpop("queue:low")
        self.raw_redis.lpush(mine, raw)
        for companion in companions:
            self.raw_redis.lpush(self.redis.keys.working(lists.identity, "slow", "high"), companion)
        return self.reclaim(lists, bury=bury, **options)

    def reclaim(self, lists: Lists, *, bury: bool = True, **options) -> int | None:
        bury_it = (lambda entry, identities: self.buried.append((entry, list(identities)))) if bury else None
        return reclaim(self.redis, lists, bury=bury_it, **options)


@pytest.fixture
def deaths(redis, raw_redis) -> Deaths:
    raw_redis.lpush("queue:low", payload(7))
    return Deaths(redis, raw_redis)


def identities(*numbers: int) -> list[str]:
    return [f"host:{number}:dddddddddddd" for number in numbers]


def test_a_job_that_kills_three_processes_the_last_one_alone_is_a_pill(deaths, raw_redis):
    assert deaths.die(payload(1), payload(2)) == 3
    assert deaths.die() == 1
    assert deaths.buried == []
    assert deaths.die() == 0
    ((entry, died),) = deaths.buried
    assert decode(entry.raw)["interrupted_count"] == 2
    assert died == identities(1, 2, 3)
    assert raw_redis.llen("queue:low") == 0


def test_a_job_that_never_ran_alone_is_never_buried(deaths, raw_redis):
    for number in range(10):
        assert deaths.die(payload(100 + number)) == 2
    assert deaths.buried == []
    assert deaths.die() == 0, "until it was alone"
    assert len(deaths.buried) == 1


def test_a_parent_leaves_the_pill_to_a_sweeper(deaths, redis, raw_redis):
    deaths.die()
    deaths.die()
    assert deaths.die(bury=False, proven=True) == 0
    lists = Lists(identities(3)[0], {"default": ("low",), "slow": ("high",)})
    left = redis.keys.working(lists.identity, "default", "low")
    assert raw_redis.llen(left) == 1
    assert raw_redis.llen("queue:low") == 0
    assert deaths.reclaim(lists) == 0
    assert [died for _, died in deaths.buried] == [identities(1, 2, 3)]


def test_the_number_of_strikes_can_be_set(deaths):
    deaths.die(max_strikes=2)
    assert deaths.die(max_strikes=2) == 0
    assert [died for _, died in deaths.buried] == [identities(1, 2)]


@pytest.mark.parametrize("never", [0, -1])
def test_below_one_nothing_is_buried(deaths, never):
    for _ in range(5):
        assert deaths.die(max_strikes=never) == 1
    assert deaths.buried == []


def test_a_late_script_that_delivers_another_job_hides_the_poison_pill(deaths, redis, raw_redis):
    deaths.die()
    deaths.die()
    deaths.die(bury=False)
    raw_redis.lpush(redis.keys.working(identities(3)[0], "slow", "high"), payload(1))
    lists = Lists(identities(3)[0], {"default": ("low",), "slow": ("high",)})
    assert deaths.reclaim(lists) == 2
    assert deaths.buried == []


def test_jobs_requeued_by_their_owner_get_no_strike(redis, raw_redis, deaths):
    """A stop, a deadline, a pause: the owner lives and gives the job back."""
    owner = working.Owner(IDENTITY, "default")
    for _ in range(5):
        (entry,) = working.claim(redis, owner, ["low"], 1)
        assert working.put_back(redis, [(entry, interrupted(entry.raw))]) == [True]
    assert strikes.died_with(redis, raw_redis.lindex("queue:low", 0)) == []


def test_a_job_whose_worker_was_killed_while_stopping_is_no_poison_pill(deaths, redis, raw_redis):
    for number in range(1, 6):
        owners.beat(redis, Lists(identities(number)[0], {}), 1)
        owners.note_stop(redis, identities(number)[0])
        assert deaths.die(proven=True) == 1
    assert deaths.buried == []
    assert strikes.died_with(redis, raw_redis.lindex("queue:low", 0)) == []


def test_more_jobs_than_a_batch_from_several_lists(redis, raw_redis):
    raw_redis.lpush(LOW, *(payload(n) for n in range(150)))
    raw_redis.lpush(HIGH, *(payload(n) for n in range(150, 300)))
    assert reclaim(redis, LISTS) == 300
    assert [decode(raw)["args"][0] for raw in reversed(raw_redis.lrange("queue:low", 0, -1))] == list(range(150))
    assert len(list(raw_redis.scan_iter("offsider:strikes:*", count=1000))) == 300
