"""A worker that can run stranded jobs does not let them wait for their next try."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.jobs import registry
from offsider.storage import stranded
from offsider.worker.run import stranded as module
from offsider.worker.run.stranded import IDLE_SECONDS, SCANS_AFTER_START, StrandedRescue
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def declared(declared) -> None:
    @job(name="New")
    def new() -> None: ...

    @job(name="Resize")
    def resize(path: str, width: int = 100) -> None: ...


class Waking:
    def __init__(self, config, client) -> None:
        self.client = client
        self.redis = Installation.of(config).make_redis(2)
        self.quiet = False
        self.config = config
        self.rescue = self.another()

    def another(self) -> StrandedRescue:
        return StrandedRescue(self.config, self.redis, quiet=lambda: self.quiet)

    def strand(self, jid: str, name: str = "New", *args: object, queue: str = "default", **fields: object) -> None:
        raw = encode({"class": name, "args": args, "jid": jid, "queue": queue, "stranded_at": 1, **fields})
        self.client.zadd("schedule", {raw: time.time() + 300})
        stranded.note(self.redis, name, "not declared")

    def look(self, rescue: StrandedRescue | None = None) -> None:
        """What a beat does, and the turn of the service after it."""
        rescue = rescue or self.rescue
        rescue.beaten()
        assert rescue.tick() == IDLE_SECONDS

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


@pytest.fixture
def looks(monkeypatch) -> list[object]:
    """Each scan of the schedule, with its result."""
    looks: list[object] = []
    each = stranded.each
    monkeypatch.setattr(module.stranded, "each", lambda redis: looks.append(redis) or each(redis))
    return looks


def test_jobs_that_this_worker_can_run_are_due_at_once_and_no_others_move(waking, caplog):
    caplog.set_level(logging.INFO, "offsider")
    waking.strand("mine")
    waking.strand("unknown here", "Other")
    waking.strand("in a queue of others", queue="elsewhere")
    waking.client.zadd("schedule", {encode({"class": "New", "args": [], "jid": "not stranded"}): time.time() + 300})
    waking.client.zadd("schedule", {b'{"stranded_at" no job': time.time() + 300})
    waking.look()
    assert waking.due() == {"mine"}
    assert waking.client.zcard("schedule") == 5
    assert "rescheduled 1 stranded job that this worker can run: due now" in caplog.text


def test_more_than_one_batch_is_moved(waking, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 2)
    for number in range(5):
        waking.strand(f"jid{number}")
    waking.look()
    assert len(waking.due()) == 5


def test_a_worker_that_serves_every_queue_serves_that_of_the_job(worker_config, raw_redis):
    worker_config.worker.queues = ["*"]
    waking = Waking(worker_config, raw_redis)
    waking.strand("a", queue="anywhere")
    waking.look()
    waking.redis.close()
    assert waking.due() == {"a"}


def test_the_signature_decides_which_worker_can_run_a_job(waking):
    digest = registry.find("Resize").signature.digest
    waking.strand("ours", "Resize", "a.png", signature=digest)
    waking.strand("fits", "Resize", "a.png", 5, signature="5ca1ab1e")
    waking.strand("too many", "Resize", "a.png", 5, "crop", signature="5ca1ab1e")
    waking.look()
    assert waking.due() == {"ours", "fits"}


def test_a_worker_scans_after_its_first_heartbeats_and_when_its_jobs_change(waking, looks):
    waking.strand("of others", "Other")
    for _ in range(SCANS_AFTER_START + 5):
        waking.look()
    assert len(looks) == SCANS_AFTER_START

    @job(name="Other")
    def other() -> None: ...

    waking.look()
    assert (waking.due(), len(looks)) == ({"of others"}, SCANS_AFTER_START + 1)


def test_before_its_first_heartbeat_it_does_not_scan(waking, looks):
    """Other workers would not hand over the jobs that it makes due."""
    waking.strand("mine")
    assert waking.rescue.tick() == IDLE_SECONDS
    assert (waking.due(), looks) == (set(), [])


def test_while_nothing_is_stranded_the_schedule_is_not_read(waking, looks):
    waking.look()
    assert looks == []


def test_of_many_equal_processes_one_scans(waking, looks):
    waking.strand("mine")
    for _ in range(10):
        waking.look(waking.another())
    assert (waking.due(), len(looks)) == ({"mine"}, 1)


def test_a_scan_reads_a_limited_number_of_members(waking, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    waking.client.zadd("schedule", {f"job{number}": time.time() for number in range(5)})
    waking.strand("mine")
    waking.look()
    assert waking.due() == {""}


def test_a_quiet_or_ending_worker_moves_nothing(waking, monkeypatch):
    waking.strand("a")
    waking.quiet = True
    waking.look()
    assert waking.due() == set()
    waking.quiet = False
    each = stranded.each
    monkeypatch.setattr(module.stranded, "each", lambda redis: (waking.rescue.stop() or raw for raw in each(redis)))
    waking.look()
    waking.look()
    assert waking.due() == set()


def test_a_beat_wakes_the_service(waking):
    rescue = waking.rescue
    rescue.start()
    wait_for(lambda: rescue.ticks >= 1)
    waking.strand("mine")
    rescue.beaten()
    wait_for(lambda: rescue.ticks >= 2)
    assert waking.due() == {"mine"}
    rescue.stop()
    assert rescue.join(10)
