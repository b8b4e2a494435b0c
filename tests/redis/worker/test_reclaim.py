"""The jobs of one dead owner: fenced first, then moved, each reported; poison pills apart (rules 2, 3, 5, 6)."""

from __future__ import annotations

import logging

import pytest

from offsider.core.compression import compress
from offsider.core.errors import PoisonPill
from offsider.core.malformed import unwrap
from offsider.core.payload import decode, encode, interrupted
from offsider.storage import owners, strikes, working
from offsider.storage.owners import Lists
from offsider.storage.working import Owner, PrivateListEntry
from offsider.worker.alive.reclaim import reclaim
from offsider.worker.alive.sweeper import PoisonPills

IDENTITY = "host:2:dddddddddddd"
LISTS = Lists(IDENTITY, {"default": ("high", "low")})
HIGH, LOW = (f"offsider:working:{IDENTITY}:default:{queue}" for queue in ("high", "low"))
ALIVE, FENCED = f"offsider:alive:{IDENTITY}", f"offsider:fenced:{IDENTITY}"


def payload(number: int, **extra) -> bytes:
    return encode({"class": "HardJob", "args": [number], "jid": f"{number:024x}", "queue": "low"} | extra)


@pytest.fixture
def redis(parts):
    return parts.redis


def test_a_dead_process_and_its_work_are_removed_from_the_registry(redis, raw_redis):
    raw_redis.lpush(LOW, payload(1))
    raw_redis.sadd("processes", IDENTITY, "ruby:1:eeeeeeeeeeee")
    for key in (IDENTITY, f"{IDENTITY}:work", f"{IDENTITY}:workers"):
        raw_redis.hset(key, "field", "value")
    reclaim(redis, LISTS, how="was killed by SIGKILL")
    assert raw_redis.smembers("processes") == {b"ruby:1:eeeeeeeeeeee"}
    assert raw_redis.keys(f"*{IDENTITY}*") == [f"offsider:fenced:{IDENTITY}".encode()]


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
    assert deaths.die(bury=False, how="was killed by SIGKILL") == 0
    lists = Lists(identities(3)[0], {"default": ("low",), "slow": ("high",)})
    left = redis.keys.working(lists.identity, "default", "low")
    assert raw_redis.llen(left) == 1
    assert raw_redis.llen("queue:low") == 0
    assert deaths.reclaim(lists) == 0
    assert [died for _, died in deaths.buried] == [identities(1, 2, 3)]


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
        assert deaths.die(how="was killed by SIGKILL") == 1
    assert deaths.buried == []
    assert strikes.died_with(redis, raw_redis.lindex("queue:low", 0)) == []


IDENTITIES = [f"host:{number}:dddddddddddd" for number in (1, 2, 3)]
LAST = IDENTITIES[-1]
JID = "a" * 24
PILL = {"class": "Pill", "args": [1], "jid": JID, "queue": "low", "dead": False, "interrupted_count": 2, "x": "kept"}


class Listeners:
    """Events and death handler calls received by the application."""

    def __init__(self, config) -> None:
        self.events: list = []
        self.deaths: list = []
        config.on("job_poisoned", self.events.append)
        config.death_handlers.append(lambda payload, error: self.deaths.append((payload, error)))


@pytest.fixture
def reported(parts) -> Listeners:
    return Listeners(parts.config)


@pytest.fixture
def dies(parts, raw_redis):
    """Let an owner die with one job; returns the job's entry."""

    def die(raw: bytes) -> PrivateListEntry:
        raw_redis.lpush(parts.redis.keys.working(LAST, "default", "low"), raw)
        assert owners.fence(parts.redis, Lists(LAST, {"default": ("low",)}))
        return PrivateListEntry(Owner(LAST, "default"), "low", raw)

    return die


def test_a_poison_pill_is_in_the_dead_set_with_the_reason_for_any_options(parts, raw_redis, dies, reported, caplog):
    entry = dies(encode(PILL))
    with caplog.at_level(logging.ERROR, "offsider"):
        assert PoisonPills(parts.config, parts.redis).bury(entry, IDENTITIES)
    (stored,) = raw_redis.zrange("dead", 0, -1)
    payload = decode(stored)
    message = payload.pop("error_message")
    failed_at = payload.pop("failed_at")
    assert payload == PILL | {"interrupted_count": 3, "error_class": "offsider.PoisonPill"}
    assert message == (
        "3 processes crashed while they had this job, the last one while it ran only this job: " + ", ".join(IDENTITIES)
    )
    assert failed_at == pytest.approx(parts.config.clock.now() * 1000, abs=60_000)
    assert f"job {JID} of queue low is a poison pill and was moved to the dead set: 3 processes crashed" in caplog.text


def test_every_listener_is_called_once(parts, raw_redis, dies, reported):
    entry = dies(encode(PILL))
    burial = PoisonPills(parts.config, parts.redis)
    assert burial.bury(entry, IDENTITIES)
    assert not burial.bury(entry, IDENTITIES)
    ((payload, error),) = reported.deaths
    assert (payload["jid"], payload["error_class"]) == (JID, "offsider.PoisonPill")
    assert isinstance(error, PoisonPill)
    assert error.identities == tuple(IDENTITIES)
    (news,) = reported.events
    assert (news.queue, news.identities) == ("low", tuple(IDENTITIES))
    assert [news.raw] == raw_redis.zrange("dead", 0, -1)


def test_details_of_an_earlier_failure_are_replaced(parts, raw_redis, dies, reported):
    failed = PILL | {"error_class": "ValueError", "error_message": "no", "error_backtrace": "x", "failed_at": 5}
    PoisonPills(parts.config, parts.redis).bury(dies(encode(failed)), IDENTITIES)
    payload = decode(raw_redis.zrange("dead", 0, -1)[0])
    assert payload["failed_at"] == 5
    assert payload["error_class"] == "offsider.PoisonPill"
    assert "error_backtrace" not in payload


def test_a_pill_without_a_jid_gets_one(parts, raw_redis, dies, reported):
    """Equal members of a sorted set collapse."""
    PoisonPills(parts.config, parts.redis).bury(dies(b'{"class":"Pill","args":[]}'), IDENTITIES)
    assert len(decode(raw_redis.zrange("dead", 0, -1)[0])["jid"]) == 24


def test_invalid_bytes_are_buried_in_a_wrapper(parts, raw_redis, dies, reported):
    assert PoisonPills(parts.config, parts.redis).bury(dies(b"no job"), IDENTITIES)
    (dead,) = raw_redis.zrange("dead", 0, -1)
    assert unwrap(dead) == b"no job"
    assert [news.raw for news in reported.events] == [dead]
    assert reported.deaths == [], "there is no payload to tell of"


def test_a_pill_with_compressed_arguments_stays_so_and_death_handlers_see_them_plain(parts, raw_redis, dies, reported):
    entry = dies(encode(compress({**PILL, "args": ["x" * 1000]})))
    assert PoisonPills(parts.config, parts.redis).bury(entry, IDENTITIES)
    (stored,) = raw_redis.zrange("dead", 0, -1)
    assert decode(stored)["compressed"] is True
    ((payload, _),) = reported.deaths
    assert payload["args"] == ["x" * 1000]
