"""A worker that can run parked jobs does not let them wait for their next try."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from offsider import job
from offsider.core.payload import encode
from offsider.jobs import registry
from offsider.storage import parked
from offsider.storage.parked import Seen, Wanted
from offsider.storage.turns import hold_turn, is_held
from offsider.worker import unparking as module
from offsider.worker.ability import Abilities
from offsider.worker.unparking import IDLE_SECONDS, QUEUE_SECONDS, Unparking
from tests.waiting import wait_for

NEW = Wanted("New", "")


@pytest.fixture(autouse=True)
def declared(no_jobs_left) -> None:
    @job(name="New")
    def new() -> None: ...

    @job(name="Resize")
    def resize(path: str, width: int = 100) -> None: ...


class Waking:
    def __init__(self, config, client) -> None:
        self.client = client
        self.redis = config.make_redis(2)
        self.quiet = False
        self.config = config
        self.unparking = self.another()

    def another(self) -> Unparking:
        return Unparking(self.config, self.redis, Abilities(self.config, self.redis), quiet=lambda: self.quiet)

    def park(self, jid: str, wanted: Wanted = NEW, *args: object, queue: str = "default", at: float | None = None):
        payload = {"class": wanted.name, "args": args, "jid": jid, "queue": queue, "parked_at": 1, "parked_count": 5}
        if wanted.signature:
            payload["signature"] = wanted.signature
        raw = encode(payload)
        self.client.zadd("schedule", {raw: time.time() + 300})
        parked.note(self.redis, wanted, Seen(time.time() if at is None else at, queue, "not declared"), 1)

    def due(self) -> set[str]:
        """The jids of jobs that are due now."""
        found = self.client.zrange("schedule", "-inf", time.time() + 30, byscore=True)
        return {raw.decode().partition('"jid":"')[2].partition('"')[0] for raw in found}


@pytest.fixture
def waking(worker_config, raw_redis) -> Iterator[Waking]:
    worker_config.worker.queues = ["default"]
    waking = Waking(worker_config, raw_redis)
    yield waking
    waking.redis.close()


def test_jobs_that_this_worker_can_run_are_due_at_once_and_no_others_move(waking, caplog):
    caplog.set_level(logging.INFO, "offsider")
    waking.park("mine")
    waking.park("unknown here", Wanted("Other", ""))
    waking.park("in a queue of others", queue="elsewhere")
    waking.client.zadd("schedule", {encode({"class": "New", "args": [], "jid": "not parked"}): time.time() + 300})
    waking.client.zadd("schedule", {b'{"parked_at" no job': time.time() + 300})
    assert waking.unparking.tick() == IDLE_SECONDS
    assert waking.due() == {"mine"}
    assert waking.client.zcard("schedule") == 5
    assert "1 job of New waited for a worker like this one" in caplog.text


def test_more_than_one_batch_is_moved(waking, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 2)
    for number in range(5):
        waking.park(f"jid{number}")
    waking.unparking.tick()
    assert len(waking.due()) == 5


def test_a_worker_that_serves_every_queue_serves_that_of_the_job(worker_config, raw_redis):
    worker_config.worker.queues = ["*"]
    waking = Waking(worker_config, raw_redis)
    waking.park("a", queue="anywhere")
    waking.unparking.tick()
    waking.redis.close()
    assert waking.due() == {"a"}


def test_the_signature_says_who_can_run_a_job(waking):
    digest = registry.find("Resize").signature.digest
    waking.park("ours", Wanted("Resize", digest), "a.png")
    waking.park("fits", Wanted("Resize", "5ca1ab1e"), "a.png", 5)
    waking.park("too many", Wanted("Resize", "5ca1ab1e"), "a.png", 5, "crop")
    waking.unparking.tick()
    assert waking.due() == {"ours", "fits"}


@pytest.fixture
def looks(monkeypatch) -> list[object]:
    """Each look through the schedule; it finds what is there."""
    looks: list[object] = []
    each = parked.each
    monkeypatch.setattr(module.parked, "each", lambda redis: looks.append(redis) or each(redis))
    return looks


def rested(waking: Waking) -> None:
    """The rest after looks that found nothing is over."""
    group = waking.unparking._group()
    parked.note_walk(waking.redis, group, replace(parked.last_walk(waking.redis, group), rest_until=0.0))


def test_what_was_tried_once_is_not_tried_again_before_more_was_parked(waking, looks):
    waking.park("other", Wanted("Resize", "5ca1ab1e"), "a.png", 5, "crop")
    waking.unparking.tick()
    rested(waking)
    waking.park("one more", Wanted("Resize", "5ca1ab1e"), "a.png", 5, "crop")
    waking.unparking.tick()
    assert len(looks) == 1
    ours = Wanted("Resize", registry.find("Resize").signature.digest)
    for number in (2, 3):
        waking.park(f"ours {number}", ours, "a.png")
        waking.unparking.tick()
        waking.unparking.tick()
        assert len(looks) == number


def test_of_many_processes_that_can_run_the_same_one_looks(waking, looks):
    waking.park("mine")
    for _ in range(10):
        assert waking.another().tick() == IDLE_SECONDS
    assert (waking.due(), len(looks)) == ({"mine"}, 1)


def test_while_another_process_looks_this_one_waits_for_its_turn(waking, looks):
    waking.park("mine")
    hold_turn(waking.redis, module.TURN, "another", 60.0)
    assert waking.unparking.tick() == QUEUE_SECONDS
    assert (waking.due(), looks) == (set(), [])
    hold_turn(waking.redis, module.TURN, "another", 0.001)
    wait_for(lambda: waking.unparking.tick() == IDLE_SECONDS)
    assert waking.due() == {"mine"}
    wait_for(lambda: not is_held(waking.redis, module.TURN))


def test_who_got_its_turn_looks_no_more_when_another_has_done_it_meanwhile(waking, looks, monkeypatch):
    waking.park("mine")

    def hold(*arguments):
        parked.note_walk(waking.redis, waking.unparking._group(), parked.Walk("", 0, time.time() + 60))
        return hold_turn(*arguments)

    monkeypatch.setattr(module, "hold_turn", hold)
    assert waking.unparking.tick() == IDLE_SECONDS
    assert looks == []


def test_after_looks_that_found_nothing_the_group_rests_for_longer_each_time(waking, looks):
    rests = []
    for number in range(8):
        waking.park("in the hands of another", at=time.time() + number)
        waking.client.delete("schedule")
        waking.unparking.tick()
        waking.unparking.tick()
        assert len(looks) == number + 1
        rests.append(parked.last_walk(waking.redis, waking.unparking._group()).rest_until - time.time())
        rested(waking)
    assert rests == pytest.approx([10, 20, 40, 80, 160, 320, 320, 320], abs=9)
    waking.park("mine", at=time.time() + 100)
    waking.unparking.tick()
    assert waking.due() == {"mine"}
    assert parked.last_walk(waking.redis, waking.unparking._group()).rest_until <= time.time() + 1


def test_a_look_that_read_no_further_is_gone_on_with(waking, looks, monkeypatch):
    monkeypatch.setattr(module, "MOST", 3)
    monkeypatch.setattr(module, "STRETCH", 2)
    waking.client.zadd("schedule", {f"job{number}": time.time() for number in range(5)})
    waking.park("mine")
    waking.unparking.tick()
    assert waking.due() == {""}
    waking.park("found at once")
    waking.client.zadd("schedule", {raw: 1 for raw in waking.client.zrange("schedule", 0, -1) if b"found" in raw})
    rested(waking)
    waking.unparking.tick()
    waking.unparking.tick()
    assert len(looks) == 2
    waking.client.zpopmin("schedule")
    rested(waking)
    waking.client.zremrangebyrank("schedule", 0, 3)
    waking.unparking.tick()
    assert "mine" in waking.due()


def test_what_nobody_has_tried_for_a_quarter_of_an_hour_is_parked_no_more(waking, looks):
    waking.park("long ago", at=time.time() - 2 * parked.EXPIRY_SECONDS)
    waking.park("of others, long ago", Wanted("Other", ""), at=time.time() - 2 * parked.EXPIRY_SECONDS)
    assert waking.unparking.tick() == IDLE_SECONDS
    assert (parked.kinds(waking.redis), looks) == ({}, [])


def test_a_quiet_or_ending_worker_moves_nothing(waking):
    waking.park("a")
    waking.quiet = True
    waking.unparking.tick()
    assert waking.due() == set()
    waking.quiet = False
    waking.unparking.stop()
    waking.unparking.tick()
    assert waking.due() == set()


def test_a_heartbeat_wakes_the_service_only_for_jobs_that_it_may_run(waking):
    unparking = waking.unparking
    unparking.start()
    assert unparking.wait_for_tick(1, 10)
    waking.park("unknown here", Wanted("Other", ""))
    unparking.look()
    waking.park("mine")
    unparking.look()
    assert unparking.wait_for_tick(2, 10)
    assert waking.due() == {"mine"}
    unparking.stop()
    assert unparking.join(10)
