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
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Deferred, Dropped
from offsider.core.payload import encode
from offsider.ext.unique import Unique
from offsider.inspector import Quarantine, Stats, Switches as Wanted
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine, switches
from offsider.storage.switches import Switch
from offsider.worker.launcher import Launcher
from offsider.worker.run import switchboard as module
from offsider.worker.run.switchboard import POLL_SECONDS, TOLD_SECONDS, Switchboard, Switches
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
    assert board.judge(context("HardJob")) == Dropped("dropped by a kill switch: it is broken", keep=True)
    assert board.judge(context("Gone")) == Dropped("dropped by a kill switch", keep=False)
    assert board.judge(context("New")) == Deferred(60, "deferred by a kill switch")
    assert board.judge(context("Old")) == Deferred(60, "deferred by a kill switch"), "stored under its older name"
    assert board.judge(context("Other")) is None
    assert board.take_counts() == {"HardJob": 1, "Gone": 1, "New": 2}
    board.give_back_counts(board.take_counts())
    assert board.take_counts() == {}


# ------------------------------------------------------------------------------- the service


class Watching:
    """The service, its board, its reports, and the signals that it takes unless it ``fails``."""

    def __init__(self, config: Config) -> None:
        self.identity = "host:1:aaaaaaaaaaaa"
        self.taken: list[bytes] = []
        self.fails = False
        self.errors: list[object] = []
        config.error_handlers.append(lambda error, _context: self.errors.append(error))
        self.redis = Installation.of(config).make_redis(2)
        self.board = Switchboard()
        self.service = Switches(config, self.redis, self.board, signals_key=self.signals_key, take_signal=self.take)

    def signals_key(self) -> str:
        return self.redis.keys.signals(self.identity)

    def take(self) -> None:
        if self.fails:
            raise RedisUnavailable("lost")
        signal = self.redis.call("RPOP", self.signals_key())
        if signal:
            self.taken.append(signal)

    def close(self) -> None:
        self.service.stop()
        assert self.service.join(10)
        self.service._watch.close()
        self.redis.close()


@pytest.fixture
def watching(worker_config) -> Iterator[Watching]:
    one = Watching(worker_config)
    yield one
    one.close()


def test_a_change_is_seen_immediately_through_tracking(watching, worker_config, monkeypatch, caplog):
    """Only this event ends the sleep."""
    monkeypatch.setattr(module, "TOLD_SECONDS", 3600.0)
    monkeypatch.setattr(module, "POLL_SECONDS", 3600.0)
    caplog.set_level(logging.WARNING, "offsider")
    watching.service.start()
    wait_for(lambda: watching.service._watch.is_told)
    Wanted(worker_config).drop("HardJob", by="ann", reason="the bank is down")
    wait_for(lambda: list(watching.board.on) == ["HardJob"])
    Wanted(worker_config).defer("HardJob", 60)
    wait_for(lambda: watching.board.on["HardJob"].action == "defer")
    Wanted(worker_config).clear("HardJob")
    wait_for(lambda: not watching.board.on)
    assert [record.getMessage() for record in caplog.records] == [
        "jobs of HardJob are moved to the quarantine from now on, by a kill switch that ann set: the bank is down",
        "jobs of HardJob are deferred by 60 s from now on, by a kill switch",
        "jobs of HardJob run again: their kill switch was cleared",
    ]


# ------------------------------------------------------------------------------- signals


def test_signals_are_taken_immediately_and_one_by_one(watching, raw_redis, monkeypatch):
    """Only these events end the sleep."""
    monkeypatch.setattr(module, "TOLD_SECONDS", 3600.0)
    raw_redis.lpush(f"{watching.identity}-signals", "TTIN")
    watching.service.start()
    wait_for(lambda: watching.taken == [b"TTIN"])
    raw_redis.lpush(f"{watching.identity}-signals", "TSTP", "TERM")
    wait_for(lambda: watching.taken == [b"TTIN", b"TSTP", b"TERM"])


def test_a_signal_under_a_new_identity_is_taken(watching, raw_redis):
    watching.service.tick()
    watching.identity = "host:1:bbbbbbbbbbbb"
    raw_redis.lpush(f"{watching.identity}-signals", "TERM")
    watching.service.tick()
    assert watching.taken == [b"TERM"]


def test_without_a_change_no_signal_is_read(watching, raw_redis):
    watching.service.tick()
    raw_redis.config_resetstat()
    assert watching.service.tick() == TOLD_SECONDS
    calls = {name for name, stats in raw_redis.info("commandstats").items() if stats["calls"]}
    assert calls == {"cmdstat_hgetall", "cmdstat_config|resetstat"}


def test_a_signal_that_could_not_be_read_is_read_later(watching, raw_redis):
    raw_redis.lpush(f"{watching.identity}-signals", "TERM")
    watching.fails = True
    assert watching.service.tick() == POLL_SECONDS
    watching.fails = False
    watching.service.tick()
    assert watching.taken == [b"TERM"]


def test_without_tracking_signals_are_polled(watching, raw_redis, monkeypatch):
    monkeypatch.setattr(watching.service._watch, "_may_track", lambda: False)
    assert watching.service.tick() == POLL_SECONDS
    raw_redis.lpush(f"{watching.identity}-signals", "TERM")
    watching.service.tick()
    assert watching.taken == [b"TERM"]


def test_without_a_switch_it_sleeps_long_and_with_one_it_polls_each_second(watching):
    assert watching.service.tick() == TOLD_SECONDS
    switches.put(watching.redis, Switch("HardJob", "drop", keep=False))
    assert watching.service.tick() == POLL_SECONDS


def test_without_tracking_the_scheduler_polls_each_second(watching, monkeypatch):
    monkeypatch.setattr(watching.service._watch, "_may_track", lambda: False)
    assert watching.service.tick() == POLL_SECONDS
    switches.put(watching.redis, Switch("HardJob", "drop"))
    watching.service.tick()
    assert list(watching.board.on) == ["HardJob"]


def test_an_expired_switch_is_deleted(watching, raw_redis):
    switches.put(watching.redis, Switch("HardJob", "drop"), seconds=0.5)
    pause_seconds = watching.service.tick()
    assert 0 < pause_seconds <= 0.5
    assert list(watching.board.on) == ["HardJob"]
    watching.service.start()
    wait_for(lambda: not watching.board.on)
    wait_for(lambda: raw_redis.keys() == [])


def test_during_an_outage_the_last_board_applies(proxied_config, proxy, raw_redis):
    watching = Watching(proxied_config)
    switches.put(watching.redis, Switch("HardJob", "drop"))
    watching.service.tick()
    watching.board.judge(context("HardJob"))
    proxy.close()
    assert watching.service.tick() == POLL_SECONDS
    assert list(watching.board.on) == ["HardJob"]
    assert watching.board.take_counts() == {"HardJob": 1}
    assert len(watching.errors) == 1
    watching.close()


def test_a_refusal_of_the_server_is_a_temporary_outage(watching, raw_redis):
    raw_redis.set("offsider:switches", "no hash")
    assert watching.service.tick() == POLL_SECONDS
    assert len(watching.errors) == 1
    raw_redis.delete("offsider:switches")
    assert watching.service.tick() == TOLD_SECONDS


def test_stopped_jobs_are_counted_and_failed_writes_are_repeated(watching, raw_redis):
    switches.put(watching.redis, Switch("HardJob", "drop"))
    watching.service.tick()
    raw_redis.set("offsider:switches:acted", "no hash")
    watching.board.judge(context("HardJob"))
    watching.service.tick()
    raw_redis.delete("offsider:switches:acted")
    watching.board.judge(context("HardJob"))
    watching.service.start()
    wait_for(lambda: switches.counts(watching.redis) == {"HardJob": 2})
    watching.board.judge(context("HardJob"))
    watching.service.stop()
    assert watching.service.join(10)
    assert switches.counts(watching.redis) == {"HardJob": 3}


def test_a_full_quarantine_is_logged_once(worker_config, caplog):
    worker_config.worker.quarantine_max_jobs = 2
    caplog.set_level(logging.WARNING, "offsider")
    watching = Watching(worker_config)
    switches.put(watching.redis, Switch("HardJob", "drop"))
    watching.service.tick()
    for number in range(3):
        watching.board.judge(context("HardJob"))
        quarantine.add(watching.redis, b"job %d" % number, "low", days=1, most=9, at=1.0, how="a switch")
        watching.service.tick()
    reported = [record.getMessage() for record in caplog.records if "the quarantine has" in record.getMessage()]
    assert reported == ["the quarantine has 2 jobs: kill switches delete the jobs that they drop from now on"]
    watching.close()


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
    assert jid is not None
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
def test_jobs_dropped_while_the_quarantine_is_full_are_deleted(worker_config, launch, ran, raw_redis):
    worker_config.worker.quarantine_max_jobs = 1
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

    def looks(context: JobContext, call_next):
        seen.append(context.name)
        return call_next(context)

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
    assert client.push({"class": Once, "args": [1]}) is None, "its lock is kept"
    Wanted(worker_config).drop("Once")
    wait_for(lambda: _board(launcher).on["Once"].action == "drop")
    assert client.push({"class": Once, "args": [2]})
    wait_for(lambda: len(Quarantine(worker_config)) == 1)
    wait_for(lambda: client.push({"class": Once, "args": [2]}) is not None, what="its lock is freed")


def _board(launcher: Launcher) -> Switchboard:
    (service,) = (service for service in launcher.parts.services if isinstance(service, Switches))
    return service._board
