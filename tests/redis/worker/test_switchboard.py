"""Switches at work: every worker acts upon them soon, nothing is lost, and no lock is left behind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from offsider import Config, Job, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.outcome import NotStarted
from offsider.core.payload import encode
from offsider.ext.unique import Unique
from offsider.inspector import Quarantine, Stats, Switches as Wanted
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine, switches
from offsider.storage.switches import Switch
from offsider.worker.controls import ControlsReader
from offsider.worker.launcher import Launcher
from offsider.worker.run.switchboard import Switchboard, Switches
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def no_jobs_left() -> Iterator[None]:
    with registry.isolated():
        yield


def context(name: str) -> JobContext:
    return JobContext(payload={"class": name, "args": [], "jid": "j"}, queue="low", raw=b"")


# ------------------------------------------------------------------------------- the board


def test_the_board_decides_the_outcome_before_a_run_and_counts_it():
    job(name="New", aliases=["Old"])(lambda: None)
    board = Switchboard()
    board.on = {
        "HardJob": Switch("HardJob", "drop", reason="it is broken"),
        "Gone": Switch("Gone", "drop", keep=False),
        "New": Switch("New", "defer", delay_seconds=60),
    }
    assert board.judge(context("HardJob")) == NotStarted(
        "quarantine", reason="dropped by a kill switch: it is broken", name="dropped"
    )
    assert board.judge(context("Gone")) == NotStarted("gone", reason="dropped by a kill switch", name="dropped")
    assert board.judge(context("New")) == NotStarted("schedule", 60, "deferred by a kill switch", "deferred")
    assert board.judge(context("Old")) == NotStarted("schedule", 60, "deferred by a kill switch", "deferred"), (
        "stored under its older name"
    )
    assert board.judge(context("Other")) is None
    assert board.take_counts() == {"HardJob": 1, "Gone": 1, "New": 2}
    board.give_back_counts(board.take_counts())
    assert board.take_counts() == {}


# ------------------------------------------------------------------------------- the control table


class Watching:
    """A switchboard and the control table that updates it."""

    def __init__(self, config: Config) -> None:
        self.redis = Installation.of(config).make_redis(2)
        self.board = Switchboard()
        self.table = Switches(self.redis, self.board)

    def update(self, *, changed: bool = False) -> None:
        self.table.update(changed=changed)

    def stop_a_job(self) -> None:
        self.board.judge(context("HardJob"))


@pytest.fixture
def watching(worker_config) -> Iterator[Watching]:
    one = Watching(worker_config)
    yield one
    one.redis.close()


def test_switches_are_read_and_logged_when_they_change(watching, worker_config, caplog):
    caplog.set_level(logging.WARNING, "offsider")
    Wanted(worker_config).drop("HardJob", by="ann", reason="the bank is down")
    watching.update()
    assert not watching.board.on
    watching.update(changed=True)
    Wanted(worker_config).defer("HardJob", 60)
    watching.update(changed=True)
    Wanted(worker_config).clear("HardJob")
    watching.update(changed=True)
    assert not watching.board.on
    assert [record.getMessage() for record in caplog.records] == [
        "jobs of HardJob are moved to the quarantine from now on, by a kill switch that ann set: the bank is down",
        "jobs of HardJob are deferred by 60 s from now on, by a kill switch",
        "jobs of HardJob run again: their kill switch was cleared",
    ]


def test_an_expired_switch_is_deleted(watching, raw_redis):
    switches.put(watching.redis, Switch("HardJob", "drop"), seconds=0.5)
    watching.update(changed=True)
    assert list(watching.board.on) == ["HardJob"]
    wait_for(lambda: watching.update() or not watching.board.on)
    assert raw_redis.keys() == [b"offsider:controls:version"]


def test_stopped_jobs_are_counted_and_failed_writes_are_repeated(watching, raw_redis):
    switches.put(watching.redis, Switch("HardJob", "drop"))
    watching.update(changed=True)
    raw_redis.set("offsider:switches:acted", "no hash")
    watching.stop_a_job()
    watching.update()
    raw_redis.delete("offsider:switches:acted")
    watching.stop_a_job()
    watching.update()
    assert switches.counts(watching.redis) == {"HardJob": 2}
    watching.stop_a_job()
    watching.table.finish()
    assert switches.counts(watching.redis) == {"HardJob": 3}


def test_a_full_quarantine_is_logged_once(worker_config, monkeypatch, caplog):
    monkeypatch.setattr(quarantine, "MAX_JOBS", 2)
    caplog.set_level(logging.WARNING, "offsider")
    watching = Watching(worker_config)
    switches.put(watching.redis, Switch("HardJob", "drop"))
    watching.update(changed=True)
    for number in range(3):
        watching.stop_a_job()
        quarantine.add(watching.redis, b"job %d" % number, "low", days=1, most=9, at=1.0, how="a switch")
        watching.update()
    reported = [record.getMessage() for record in caplog.records if "the quarantine has" in record.getMessage()]
    assert reported == ["the quarantine has 2 jobs: kill switches delete the jobs that they drop from now on"]
    watching.redis.close()


# ------------------------------------------------------------------------------- a worker


@pytest.fixture
def launch(worker_config):
    started: list[Launcher] = []

    def launch() -> Launcher:
        launcher = Launcher(worker_config)
        started.append(launcher)
        launcher.start()
        return launcher

    worker_config.worker.concurrency = 2
    yield launch
    for launcher in started:
        launcher.stop()


@pytest.fixture(params=["reliable", "basic"])
def each_fetcher(request, worker_config) -> None:
    worker_config.worker.fetcher = request.param


@pytest.fixture
def news(worker_config) -> SimpleNamespace:
    heard = SimpleNamespace(removed=[], finished=[])
    worker_config.on("job_removed", heard.removed.append)
    worker_config.on("execution_finished", heard.finished.append)
    return heard


@pytest.fixture
def ran() -> list[object]:
    """What the jobs Hard, Waits (a coroutine) and Soft have done."""
    done: list[object] = []

    @job(name="Hard")
    def hard(number: int) -> None:
        done.append(number)

    @job(name="Waits")
    async def waits(number: int) -> None:
        done.append(number)

    @job(name="Soft")
    def soft(number: int) -> None:
        done.append(f"soft {number}")

    return done


def push(config: Config, name: str, *args: object) -> str:
    jid = Client(config).push({"class": name, "args": list(args)})
    assert jid
    return jid


@pytest.mark.usefixtures("each_fetcher")
def test_dropped_jobs_are_kept_and_can_be_restored_and_count_as_nothing(worker_config, launch, ran, news, raw_redis):
    Wanted(worker_config).drop("Hard", reason="it is broken")
    Wanted(worker_config).drop("Waits", delete=True)
    jid = push(worker_config, "Hard", 1)
    gone = push(worker_config, "Waits", 2)
    push(worker_config, "Soft", 3)
    launcher = launch()
    wait_for(lambda: ran == ["soft 3"] and len(news.removed) == 2 and len(news.finished) == 1)
    (kept,) = Quarantine(worker_config)
    assert (kept.record.jid, kept.where, kept.how) == (jid, "queue:default", "dropped by a kill switch: it is broken")
    reported = {(one.where, one.how): one for one in news.removed}
    assert set(reported) == {("queue:default", "quarantine"), ("queue:default", "delete")}
    assert all(isinstance(one, JobRemoved) for one in news.removed)
    assert gone.encode() in reported["queue:default", "delete"].raw
    Wanted(worker_config).clear("Hard")
    wait_for(lambda: "Hard" not in _board(launcher).on)
    assert Quarantine(worker_config).restore(kept.id)
    wait_for(lambda: 1 in ran)
    launcher.stop()
    stats = Stats.read(worker_config)
    assert (stats.processed, stats.failed, stats.retries) == (2, 0, 0)
    assert raw_redis.keys("offsider:working:*") == []


@pytest.mark.usefixtures("each_fetcher")
def test_jobs_dropped_while_the_quarantine_is_full_are_deleted(worker_config, launch, ran, raw_redis, monkeypatch):
    monkeypatch.setattr(quarantine, "MAX_JOBS", 1)
    worker_config.worker.concurrency = 1
    Wanted(worker_config).drop("Hard")
    for number in range(3):
        push(worker_config, "Hard", number)
    push(worker_config, "Soft", 9)
    launcher = launch()
    wait_for(lambda: ran == ["soft 9"] and raw_redis.llen("queue:default") == 0)
    launcher.stop()
    assert len(Quarantine(worker_config)) == 1
    assert raw_redis.keys("offsider:working:*") == []


@pytest.mark.usefixtures("each_fetcher")
def test_deferred_jobs_return_without_using_an_attempt(worker_config, launch, ran, news, raw_redis):
    Wanted(worker_config).defer("Hard", 3600)
    payload = {"class": "Hard", "args": [1], "jid": "j" * 24, "queue": "default", "retry_count": 2}
    raw_redis.lpush("queue:default", encode(payload))
    launch()
    ((raw, score),) = wait_for(lambda: raw_redis.zrange("schedule", 0, -1, withscores=True))
    assert raw == encode(payload)
    assert 3500 < score - raw_redis.time()[0] < 3601
    assert (ran, news.finished) == ([], [])


def test_a_new_switch_acts_soon_and_does_not_affect_running_jobs(worker_config, launch, ran):
    entered, go_on = threading.Event(), threading.Event()

    @job(name="Long")
    def long() -> None:
        entered.set()
        assert go_on.wait(20)
        ran.append("long")

    launcher = launch()
    push(worker_config, "Long")
    assert entered.wait(20)
    Wanted(worker_config).drop("Long")
    wait_for(lambda: "Long" in _board(launcher).on)
    push(worker_config, "Long")
    wait_for(lambda: len(Quarantine(worker_config)) == 1)
    go_on.set()
    wait_for(lambda: ran == ["long"])


def test_a_job_of_an_unknown_class_can_be_dropped(worker_config, launch, raw_redis):
    Wanted(worker_config).drop("Removed::Job")
    push(worker_config, "Removed::Job", 1)
    launch()
    wait_for(lambda: len(Quarantine(worker_config)) == 1)
    assert raw_redis.zcard("retry") == raw_redis.zcard("schedule") == 0


def test_neither_the_reloader_nor_middleware_sees_a_job_that_does_not_begin(worker_config, launch, ran):
    seen: list[str] = []

    def looks(context: JobContext):
        seen.append(context.name)
        yield

    worker_config.server_middleware.add(looks)
    Wanted(worker_config).drop("Hard")
    push(worker_config, "Hard", 1)
    push(worker_config, "Soft", 2)
    launch()
    wait_for(lambda: ran == ["soft 2"] and len(Quarantine(worker_config)) == 1)
    assert seen == ["Soft"]


def test_a_dropped_job_frees_its_lock_and_a_deferred_one_keeps_it(worker_config, launch, raw_redis):
    worker_config.use(Unique())

    class Once(Job, name="Once", unique_for=600):
        def perform(self, number: int) -> None: ...

    client = Client(worker_config)
    Wanted(worker_config).defer("Once", 3600)
    assert client.push({"class": Once, "args": [1]})
    launcher = launch()
    wait_for(lambda: raw_redis.zcard("schedule") == 1)
    assert not client.push({"class": Once, "args": [1]}), "its lock is kept"
    Wanted(worker_config).drop("Once")
    wait_for(lambda: _board(launcher).on["Once"].action == "drop")
    assert client.push({"class": Once, "args": [2]})
    wait_for(lambda: len(Quarantine(worker_config)) == 1)
    wait_for(lambda: client.push({"class": Once, "args": [2]}), what="its lock is freed")


def _board(launcher: Launcher) -> Switchboard:
    (service,) = (service for service in launcher.parts.services if isinstance(service, ControlsReader))
    return service._tables[0]._board
