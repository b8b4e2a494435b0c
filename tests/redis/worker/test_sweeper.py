"""Jobs of the dead come back; the living keep theirs (rules 1, 2, 7)."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from offsider.core.payload import decode, encode
from offsider.storage import working
from offsider.worker.alive import sweeper as sweeper_module
from offsider.worker.alive.sweeper import Sweeper
from tests.redis.worker.conftest import Parts, make_config

DEAD = "host:2:dddddddddddd"
LIFE = 45


def payload(number: int, **extra) -> bytes:
    return encode({"class": "HardJob", "args": [number], "jid": f"{number:024x}", "queue": "low"} | extra)


@pytest.fixture
def sweeper(parts) -> Sweeper:
    parts.ownership.register()
    return Sweeper(parts.config, parts.redis, parts.ownership)


@pytest.fixture
def reclaimed(parts) -> list:
    reported: list = []
    parts.config.on("job_reclaimed", reported.append)
    return reported


class Corpse:
    """An owner that has stopped beating, and the looks that were made at it."""

    def __init__(self, client, keys, identity: str = DEAD, queues: tuple[str, ...] = ("low",)) -> None:
        self.client, self.keys, self.identity = client, keys, identity
        client.hset(keys.owners, identity, json.dumps({"default": queues}))

    def holds(self, *raws: bytes, queue: str = "low") -> None:
        self.client.lpush(self.keys.working(self.identity, "default", queue), *raws)

    def was_looked_at(self, seconds: float = 20.0, looks: int = 5, last_seconds_ago: float = 3.0) -> None:
        now = self.client.time()[0]
        note = f"{int((now - seconds) * 1000)}:{int((now - last_seconds_ago) * 1000)}:{looks}"
        self.client.hset(self.keys.suspects, self.identity, note)

    @property
    def fenced(self) -> bool:
        return bool(self.client.exists(self.keys.fenced(self.identity)))

    @property
    def registered(self) -> bool:
        return bool(self.client.hexists(self.keys.owners, self.identity))


@pytest.fixture
def corpse(parts, raw_redis) -> Corpse:
    return Corpse(raw_redis, parts.redis.keys)


# ------------------------------------------------------------------------------------- the dead


def test_the_jobs_of_a_dead_owner_are_the_next_to_run_in_their_old_order(sweeper, corpse, raw_redis, reclaimed, caplog):
    corpse.holds(payload(1), payload(2, interrupted_count=1), b"no job")
    corpse.was_looked_at()
    raw_redis.lpush("queue:low", "waiting")
    with caplog.at_level(logging.WARNING, "offsider"):
        sweeper.tick()
    first, second, third, waiting = reversed(raw_redis.lrange("queue:low", 0, -1))
    assert decode(first) == decode(payload(1)) | {"interrupted_count": 1}
    assert decode(second)["interrupted_count"] == 2
    assert (third, waiting) == (b"no job", b"waiting")
    assert corpse.fenced
    assert b"low" in raw_redis.smembers("queues")
    assert f"{DEAD} is dead; requeued its 3 jobs" in caplog.text
    assert f"requeued HardJob JID-{1:024x} to queue low: {DEAD} is dead" in caplog.text
    assert f"requeued malformed payload to queue low: {DEAD} is dead" in caplog.text
    assert sorted((news.queue, news.identity, news.interrupted_count) for news in reclaimed) == [
        ("low", DEAD, 0),
        ("low", DEAD, 1),
        ("low", DEAD, 2),
    ]


def test_more_jobs_than_a_batch_are_requeued_in_order(sweeper, corpse, raw_redis):
    count = working.BATCH * 2 + 17
    corpse.holds(*(payload(n) for n in range(count)))
    corpse.was_looked_at()
    sweeper.tick()
    assert [decode(raw)["args"] for raw in reversed(raw_redis.lrange("queue:low", 0, -1))] == [
        [n] for n in range(count)
    ]


def test_one_queue_that_refuses_its_jobs_blocks_no_other(sweeper, corpse, raw_redis, parts):
    raw_redis.hset("offsider:owners", DEAD, json.dumps({"default": ["bad", "low"]}))
    corpse.holds(payload(1), queue="bad")
    corpse.holds(payload(2))
    corpse.was_looked_at()
    raw_redis.set("queue:bad", "wrong")
    sweeper.tick()
    assert raw_redis.llen("queue:low") == 1
    assert raw_redis.llen(parts.redis.keys.working(DEAD, "default", "bad")) == 1
    raw_redis.delete("queue:bad")
    corpse.was_looked_at()
    sweeper.tick()
    assert raw_redis.llen("queue:bad") == 1, "found by a later look"


def test_a_dead_owner_is_forgotten_when_its_lists_stayed_empty_for_a_minute(sweeper, corpse, raw_redis):
    corpse.was_looked_at()
    sweeper.tick()
    assert corpse.registered
    corpse.was_looked_at()
    raw_redis.hset("offsider:suspects", f"{DEAD} empty", (raw_redis.time()[0] - 61) * 1000)
    sweeper.tick()
    assert not corpse.registered
    assert corpse.fenced
    assert raw_redis.hlen("offsider:suspects") == 0


# ----------------------------------------------------------------------------------- the living


def untouched(corpse, raw_redis) -> bool:
    return not corpse.fenced and not raw_redis.exists("queue:low") and corpse.registered


def test_no_owner_is_declared_dead_at_the_first_check(sweeper, corpse, raw_redis):
    corpse.holds(payload(1))
    sweeper.tick()
    assert untouched(corpse, raw_redis)


@pytest.mark.parametrize(
    "seen", [(20, 1, 3), (10, 9, 3), (3600, 99, 15)], ids=["too few looks", "too short a span", "a gap"]
)
def test_too_little_was_seen_for_a_death(sweeper, corpse, raw_redis, seen):
    corpse.holds(payload(1))
    corpse.was_looked_at(*seen)
    sweeper.tick()
    assert untouched(corpse, raw_redis)


def test_an_owner_whose_heartbeat_returns_in_time_stays_alive(sweeper, corpse, raw_redis, parts, monkeypatch):
    corpse.holds(payload(1))
    corpse.was_looked_at()
    original = sweeper_module.owners.look

    def look_and_beat(redis, identities, life_ms):
        dead = original(redis, identities, life_ms)
        raw_redis.set(parts.redis.keys.alive(DEAD), 1)
        return dead

    monkeypatch.setattr(sweeper_module.owners, "look", look_and_beat)
    sweeper.tick()
    assert untouched(corpse, raw_redis)


def test_a_sweeper_never_reclaims_its_own_jobs(sweeper, raw_redis, parts):
    raw_redis.lpush(parts.working, payload(1))
    raw_redis.delete(parts.redis.keys.alive(parts.ownership.identity))
    Corpse(raw_redis, parts.redis.keys, parts.ownership.identity).was_looked_at()
    sweeper.tick()
    assert raw_redis.llen(parts.working) == 1


def test_one_process_sweeps_at_a_time(sweeper, corpse, raw_redis):
    corpse.holds(payload(1))
    corpse.was_looked_at()
    raw_redis.set("offsider:sweep", "somebody else", ex=100)
    sweeper.tick()
    assert untouched(corpse, raw_redis)
    raw_redis.delete("offsider:sweep")
    sweeper.tick()
    assert corpse.fenced


def test_the_only_owner_counts_the_owners_and_sweeps_less_often(sweeper, raw_redis, parts):
    raw_redis.config_resetstat()
    assert sweeper.tick() == pytest.approx(LIFE * 2 / 3)
    calls = {name for name, stats in raw_redis.info("commandstats").items() if stats["calls"]}
    assert calls == {"cmdstat_hlen", "cmdstat_config|resetstat"}
    Corpse(raw_redis, parts.redis.keys)
    assert sweeper.tick() == pytest.approx(LIFE / 12)


# -------------------------------------------------------------------------------- after trouble


def test_after_a_failure_no_owner_is_declared_dead_for_two_liveness_periods(proxied, proxy, raw_redis, monkeypatch):
    """Others could not beat either."""
    clock = [1000.0]
    monkeypatch.setattr(sweeper_module.time, "monotonic", lambda: clock[0])
    proxied.ownership.register()
    sweeper = Sweeper(proxied.config, proxied.redis, proxied.ownership)
    sweeper.tick()
    corpse = Corpse(raw_redis, proxied.redis.keys)
    corpse.holds(payload(1))
    proxy.refuse()
    sweeper.tick()
    proxy.accept()
    corpse.was_looked_at()
    sweeper.tick()
    assert untouched(corpse, raw_redis)
    clock[0] += 2 * LIFE - 1
    corpse.was_looked_at()
    sweeper.tick()
    assert untouched(corpse, raw_redis)
    clock[0] += 2
    corpse.was_looked_at()
    sweeper.tick()
    assert corpse.fenced


# -------------------------------------------------------------------------------------- strays


def test_unregistered_lists_are_found_once_an_hour(sweeper, raw_redis, parts, monkeypatch, caplog):
    clock = [sweeper_module.time.monotonic()]
    monkeypatch.setattr(sweeper_module.time, "monotonic", lambda: clock[0])
    raw_redis.lpush(parts.redis.keys.working("host:9:eeeeeeeeeeee", "slow", "low"), payload(1))
    sweeper.tick()
    assert not raw_redis.hexists("offsider:owners", "host:9:eeeeeeeeeeee")
    clock[0] += 3601
    with caplog.at_level(logging.WARNING, "offsider"):
        sweeper.tick()
    assert json.loads(raw_redis.hget("offsider:owners", "host:9:eeeeeeeeeeee")) == {"slow": ["low"]}
    assert "found and registered 1 private list without an owner" in caplog.text
    now = raw_redis.time()[0]
    raw_redis.hset("offsider:suspects", "host:9:eeeeeeeeeeee", f"{(now - 20) * 1000}:{(now - 3) * 1000}:5")
    sweeper.tick()
    assert raw_redis.llen("queue:low") == 1, "and then reclaimed like any other"


def test_an_unreadable_entry_of_the_registry_does_not_end_the_sweep(sweeper, corpse, raw_redis):
    raw_redis.hset("offsider:owners", "broken", "{")
    corpse.was_looked_at()
    sweeper.tick()
    assert corpse.fenced


# ---------------------------------------------------------------------------------- poison pills


def test_a_pill_is_buried_by_the_sweep_and_reported_once(sweeper, corpse, raw_redis, parts):
    poisoned, deaths = [], []
    parts.config.on("job_poisoned", poisoned.append)
    parts.config.death_handlers.append(lambda payload, error: deaths.append((payload["jid"], type(error).__name__)))
    now = raw_redis.time()[0]
    raw_redis.zadd(f"offsider:strikes:{7:024x}", {"host:8:eeeeeeeeeeee": now - 60, "host:9:eeeeeeeeeeee": now - 30})
    corpse.holds(payload(7, interrupted_count=2))
    corpse.was_looked_at()
    sweeper.tick()
    sweeper.tick()
    assert raw_redis.zcard("dead") == 1
    assert not raw_redis.exists("queue:low")
    assert [news.identities for news in poisoned] == [("host:8:eeeeeeeeeeee", "host:9:eeeeeeeeeeee", DEAD)]
    assert deaths == [(f"{7:024x}", "PoisonPill")]


def test_an_owner_whose_jobs_cannot_be_requeued_blocks_no_other(sweeper, corpse, raw_redis, parts):
    bad = Corpse(raw_redis, parts.redis.keys, "host:1:aaaaaaaaaaaa")
    raw_redis.set(parts.redis.keys.working(bad.identity, "default", "low"), "wrong")
    bad.was_looked_at()
    corpse.holds(payload(1))
    corpse.was_looked_at()
    sweeper.tick()
    assert raw_redis.llen("queue:low") == 1
    assert [context["context"] for _, context in parts.errors] == ["sweeper"]


# ------------------------------------------------------------------------------------- together


def test_eight_sweepers_give_each_of_a_thousand_orphans_back_once(redis_url, raw_redis, parts, monkeypatch):
    """The lease is out of the way here, as if each of them had lost it while it swept."""
    monkeypatch.setattr(sweeper_module.leases, "acquire", lambda *_: 0.0)
    corpses = [Corpse(raw_redis, parts.redis.keys, f"host:{n}:dddddddddddd") for n in range(10)]
    for n, dead in enumerate(corpses):
        dead.holds(*(payload(number) for number in range(n * 100, n * 100 + 100)))
        dead.was_looked_at()
    reported: list = []
    capsule = [Parts(make_config(redis_url)) for _ in range(8)]
    start = threading.Barrier(len(capsule))

    def sweep(one: Parts) -> None:
        one.config.on("job_reclaimed", reported.append)
        one.ownership.register()
        sweeper = Sweeper(one.config, one.redis, one.ownership)
        start.wait(20)
        sweeper.tick()

    threads = [threading.Thread(target=sweep, args=(one,)) for one in capsule]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    back = [decode(raw) for raw in raw_redis.lrange("queue:low", 0, -1)]
    assert sorted(job["args"][0] for job in back) == list(range(1000))
    assert {job["interrupted_count"] for job in back} == {1}
    assert len(reported) == 1000
    assert all(raw_redis.zcard(f"offsider:strikes:{n:024x}") == 1 for n in range(1000))
    assert not list(raw_redis.scan_iter("offsider:working:*"))
    for one in capsule:
        assert one.errors == []
        one.close()
