"""A worker that can run parked jobs does not let them wait for their next try."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from offsider import job
from offsider.core.payload import encode
from offsider.jobs import registry
from offsider.storage import parked
from offsider.storage.parked import Seen, Wanted
from offsider.worker import unparking as module
from offsider.worker.ability import Abilities
from offsider.worker.unparking import IDLE_SECONDS, Unparking

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


def test_what_was_tried_once_is_not_tried_at_each_heartbeat_unless_it_is_made_for_this_worker(waking, monkeypatch):
    read = []
    monkeypatch.setattr(module.parked, "each", lambda redis: read.append(redis) or iter(()))
    waking.park("other", Wanted("Resize", "5ca1ab1e"), "a.png", 5, "crop")
    waking.unparking.tick()
    waking.unparking.tick()
    assert len(read) == 1
    waking.park("ours", Wanted("Resize", registry.find("Resize").signature.digest), "a.png")
    waking.unparking.tick()
    waking.unparking.tick()
    assert len(read) == 3


def test_when_no_such_job_is_parked_any_more_nobody_has_to_look(waking):
    waking.park("lately")
    waking.client.delete("schedule")
    waking.unparking.tick()
    assert NEW in parked.kinds(waking.redis)  # somebody may have it in hand
    waking.park("long ago", at=time.time() - 120)
    waking.client.delete("schedule")
    waking.unparking.tick()
    assert parked.kinds(waking.redis) == {}


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
