"""Controls that defer and drop: every worker applies them soon, nothing is lost, and no lock is left behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from offsider import Config, Job, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.controls import Control
from offsider.core.outcome import NotStarted, Succeeded
from offsider.core.payload import JobPayload, encode
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Unique
from offsider.inspector import Controls, Quarantine, Stats
from offsider.runtime.context import JobContext
from offsider.runtime.events import JobRemoved
from offsider.runtime.middleware import MiddlewareChain
from offsider.storage import control_table, quarantine
from offsider.worker.controls import ControlsReader
from offsider.worker.launcher import Launcher
from offsider.worker.run.control_admission import Admission
from offsider.worker.run.control_rules import ControlRules
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")


# ------------------------------------------------------------------------------- the control table


class Watching:
    """The rules of a worker, and how they stop a job."""

    def __init__(self, config: Config) -> None:
        self.redis = Installation.of(config).make_redis(2)
        self.rules = ControlRules(config, self.redis)

    def update(self, *, changed: bool = False) -> None:
        self.rules.update(changed=changed)

    @property
    def on(self) -> list[str]:
        rule = self.rules.rule_of("HardJob")
        return [] if rule is None else [control.action for control in rule.controls]

    def stop_a_job(self) -> None:
        payload: JobPayload = {"class": "HardJob", "args": [], "jid": "j"}
        outcome = MiddlewareChain[JobContext]((Admission(None, None, self.rules, None, None),)).run(
            JobContext(payload, "low"), lambda _: Succeeded()
        )
        assert outcome == NotStarted("quarantine", reason="dropped by a control", name="dropped")


@pytest.fixture
def watching(worker_config) -> Iterator[Watching]:
    one = Watching(worker_config)
    yield one
    one.redis.close()


def test_controls_are_read_and_logged_when_they_change(watching, worker_config, caplog):
    caplog.set_level(logging.WARNING, "offsider")
    wanted = Controls(worker_config)
    wanted.drop("HardJob", by="ann", reason="the bank is down")
    watching.update()
    assert not watching.on
    watching.update(changed=True)
    wanted.limit("HardJob", 3)
    watching.update(changed=True)
    wanted.resume("HardJob")
    watching.update(changed=True)
    assert not watching.on
    assert [record.getMessage() for record in caplog.records] == [
        "jobs of HardJob are dropped from now on, by ann: the bank is down",
        "jobs of HardJob are limited to 3 from now on",
        "jobs of HardJob run again: their control has ended",
    ]


def test_an_expired_control_is_deleted(watching, raw_redis):
    control_table.put(watching.redis, Control("HardJob", "drop"), seconds=0.5)
    watching.update(changed=True)
    assert watching.on == ["drop"]
    wait_for(lambda: watching.update() or not watching.on)
    assert sorted(raw_redis.keys()) == [b"offsider:controls:version", b"offsider:events"]


def test_stopped_jobs_are_counted_and_failed_writes_are_repeated(watching, raw_redis):
    control_table.put(watching.redis, Control("HardJob", "drop"))
    watching.update(changed=True)
    raw_redis.set("offsider:controls:acted", "no hash")
    watching.stop_a_job()
    watching.update()
    raw_redis.delete("offsider:controls:acted")
    watching.stop_a_job()
    watching.update()
    assert control_table.counts(watching.redis) == {"HardJob": 2}
    watching.stop_a_job()
    watching.rules.finish()
    assert control_table.counts(watching.redis) == {"HardJob": 3}


def test_a_full_quarantine_is_logged_once(worker_config, monkeypatch, caplog):
    monkeypatch.setattr(quarantine, "MAX_JOBS", 2)
    caplog.set_level(logging.WARNING, "offsider")
    watching = Watching(worker_config)
    control_table.put(watching.redis, Control("HardJob", "drop"))
    watching.update(changed=True)
    for number in range(3):
        watching.stop_a_job()
        quarantine.add(watching.redis, b"job %d" % number, "low", days=1, most=9, at=1.0, how="a control")
        watching.update()
    reported = [record.getMessage() for record in caplog.records if "the quarantine has" in record.getMessage()]
    assert reported == ["the quarantine has 2 jobs: jobs that a control drops are deleted from now on"]
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


def test_a_dropped_key_stops_its_jobs_and_no_key_is_made_of_arguments_that_do_not_fit(worker_config, launch, raw_redis):
    done = []

    @job(name="Keyed", key=lambda account: account)
    def keyed(account: str) -> None:
        done.append(account)

    worker_config.use(ConcurrencyLimits())
    Controls(worker_config).drop("Keyed[acme]")
    launch()
    for account in ("acme", "other"):
        push(worker_config, "Keyed", account)
    Client(worker_config).push({"class": "Keyed", "args": [], "signature": "5ca1ab1e"})
    wait_for(lambda: done == ["other"] and len(Quarantine(worker_config)) == 1 and raw_redis.zcard("schedule") == 1)


def test_dropped_jobs_are_kept_and_can_be_restored_and_count_as_nothing(worker_config, launch, ran, news, raw_redis):
    Controls(worker_config).drop("Hard", reason="it is broken")
    Controls(worker_config).drop("Waits", delete=True)
    jid = push(worker_config, "Hard", 1)
    gone = push(worker_config, "Waits", 2)
    push(worker_config, "Soft", 3)
    launcher = launch()
    wait_for(lambda: ran == ["soft 3"] and len(news.removed) == 2 and len(news.finished) == 1)
    (kept,) = Quarantine(worker_config)
    assert (kept.jid, kept.where, kept.how) == (jid, "queue:default", "dropped by a control: it is broken")
    reported = {(one.where, one.how): one for one in news.removed}
    assert set(reported) == {("queue:default", "quarantine"), ("queue:default", "delete")}
    assert all(isinstance(one, JobRemoved) for one in news.removed)
    assert gone.encode() in reported["queue:default", "delete"].raw
    Controls(worker_config).resume("Hard")
    wait_for(lambda: _rules(launcher).rule_of("Hard") is None)
    assert Quarantine(worker_config).restore(kept)
    wait_for(lambda: 1 in ran)
    launcher.stop()
    stats = Stats.read(worker_config)
    assert (stats.processed, stats.failed, stats.retries) == (2, 0, 0)
    assert raw_redis.keys("offsider:working:*") == []


def test_deferred_jobs_return_without_using_an_attempt(worker_config, launch, ran, news, raw_redis):
    Controls(worker_config).defer("Hard", 3600)
    payload = {"class": "Hard", "args": [1], "jid": "j" * 24, "queue": "default", "retry_count": 2}
    raw_redis.lpush("queue:default", encode(payload))
    launch()
    ((raw, score),) = wait_for(lambda: raw_redis.zrange("schedule", 0, -1, withscores=True))
    assert raw == encode(payload)
    assert 3500 < score - raw_redis.time()[0] < 3601
    assert (ran, news.finished) == ([], [])


def test_a_job_of_an_unknown_class_can_be_dropped(worker_config, launch, raw_redis):
    Controls(worker_config).drop("Removed::Job")
    push(worker_config, "Removed::Job", 1)
    launch()
    wait_for(lambda: len(Quarantine(worker_config)) == 1)
    assert raw_redis.zcard("retry") == raw_redis.zcard("schedule") == 0


def test_a_dropped_job_frees_its_lock_and_a_deferred_one_keeps_it(worker_config, launch, raw_redis):
    worker_config.use(Unique())

    class Once(Job, name="Once", unique_for=600):
        def perform(self, number: int) -> None: ...

    client = Client(worker_config)
    Controls(worker_config).defer("Once", 3600)
    assert client.push({"class": Once, "args": [1]})
    launcher = launch()
    wait_for(lambda: raw_redis.zcard("schedule") == 1)
    assert not client.push({"class": Once, "args": [1]}), "its lock is kept"
    Controls(worker_config).drop("Once")
    wait_for(lambda: _rules(launcher).rule_of("Once").controls[0].action == "drop")
    assert client.push({"class": Once, "args": [2]})
    wait_for(lambda: len(Quarantine(worker_config)) == 1)
    wait_for(lambda: client.push({"class": Once, "args": [2]}), what="its lock is freed")


def _rules(launcher: Launcher) -> ControlRules:
    (service,) = (service for service in launcher.parts.services if isinstance(service, ControlsReader))
    return service._rules
