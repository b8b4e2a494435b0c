"""A worker is brought up in one order and down in another, on time, and leaves nothing behind."""

from __future__ import annotations

import json
import threading
import time

import pytest
import redis

from offsider import Config, Reschedule, __version__, current_job, job
from offsider.cli.status import title
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.inspector import ProcessSet
from offsider.jobs import registry
from offsider.runtime.service import Loop
from offsider.worker import launcher as module, watchdog
from offsider.worker.fetch.basic import BasicFetcher
from offsider.worker.launcher import Launcher
from tests.threads import names_of_threads
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def no_jobs(declared) -> None:
    registry._jobs.clear()  # modules of other tests declare some when they are imported


@pytest.fixture
def config(redis_url) -> Config:
    return make_config(redis_url)


@pytest.fixture
def launch(config):
    """launch() -> a launcher that was started, and is stopped after the test."""
    started: list[Launcher] = []

    def launch(config: Config = config, **options) -> Launcher:
        launcher = Launcher(config, **options)
        started.append(launcher)
        launcher.start()
        return launcher

    yield launch
    for launcher in started:
        launcher.stop()


def make_config(url: str) -> Config:
    config = Config()
    config.redis.url = url
    config.worker.concurrency = 2
    return config


def push(config: Config, name: str, **fields) -> str | None:
    return Client(config).push({"class": name, "args": [], **fields})


# -------------------------------------------------------------------------------------------- up


def test_a_started_worker_has_its_services_its_threads_and_an_owner(config, launch, raw_redis):
    launcher = launch()

    assert names_of_threads() == [
        "offsider-controls",
        "offsider-default-1",
        "offsider-default-2",
        "offsider-failures",
        "offsider-heartbeat",
        "offsider-liveness",
        "offsider-sampler",
        "offsider-scheduler",
        "offsider-slots",
        "offsider-stranded-rescue",
        "offsider-sweeper",
        "offsider-watchdog",
    ]
    assert config.frozen
    assert raw_redis.hkeys("offsider:owners") == [launcher.identity.encode()]
    wait_for(lambda: raw_redis.smembers("processes") == {launcher.identity.encode()})


@pytest.mark.parametrize("obstacle", ["", "this CPython has a fault"])
def test_the_start_logs_whether_jobs_in_threads_can_be_interrupted(obstacle, launch, monkeypatch, caplog):
    monkeypatch.setattr(module, "OBSTACLE", obstacle)
    caplog.set_level("INFO", "offsider")
    launch()
    reported = [message for message in caplog.messages if message.startswith("time limits and shutdown")]
    assert reported == (
        ["time limits and shutdown can interrupt async jobs only, not jobs in threads: this CPython has a fault"]
        if obstacle
        else []
    )


def test_only_a_capsule_that_serves_all_queues_needs_discovery(config, launch):
    config.capsule("rest", concurrency=1, queues=["*"])
    ran = threading.Event()
    job(name="Runs")(ran.set)
    push(config, "Runs", queue="found")

    launch()

    assert "offsider-discovery" in names_of_threads()
    assert ran.wait(10)  # existing jobs are served at once


def test_events_are_emitted_in_lifecycle_order(config, launch):
    heard: list[str] = []
    beaten = threading.Event()
    for event in ("startup", "quiet", "shutdown", "exit", "heartbeat"):
        config.on(event, lambda event=event: heard.append(event))
    config.on("beat", beaten.set)
    launcher = launch()
    assert beaten.wait(10)

    launcher.quiet()
    launcher.quiet()
    launcher.stop()
    launcher.stop()
    launcher.quiet()

    assert heard == ["startup", "heartbeat", "quiet", "shutdown", "exit"]


def test_a_job_that_is_declared_wrongly_ends_the_start_before_anything_is_written(config, raw_redis):
    heard: list[str] = []
    config.on("startup", lambda: heard.append("startup"))

    @job(name="Wrong", retry=-1)
    def wrong() -> None: ...

    with pytest.raises(InvalidOptions, match="Wrong"):
        Launcher(config).start()

    assert heard == []
    assert raw_redis.keys() == []
    assert names_of_threads() == []


def failing(*_):
    raise LookupError("a mistake of the application")


class Broken(Loop):
    """A service that cannot be started."""

    def __init__(self, config: Config) -> None:
        super().__init__("offsider-broken", failing, on_error=config.handle_error)
        self.start = failing  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda config: config.on("startup", failing),
        lambda config: config.services.append(failing),
        lambda config: config.services.append(Broken),
        lambda config: setattr(config, "fetcher", "nowhere.Fetcher"),
    ],
    ids=["startup", "making a service", "starting a service", "making a fetcher"],
)
def test_a_failed_start_can_be_stopped_and_leaves_no_state(break_it, config, raw_redis):
    break_it(config)
    launcher = Launcher(config)
    with pytest.raises((LookupError, ConfigurationError)):
        launcher.start()

    launcher.stop()

    assert launcher.wait(0)
    wait_for(lambda: names_of_threads() == [])
    assert raw_redis.hlen("offsider:owners") == raw_redis.scard("processes") == 0


# ----------------------------------------------------------------------------------------- quiet


SERVICES_OF_A_QUIET_WORKER = [
    "offsider-controls",
    "offsider-failures",
    "offsider-heartbeat",
    "offsider-liveness",
    "offsider-sampler",
    "offsider-slots",
    "offsider-stranded-rescue",
    "offsider-sweeper",
    "offsider-watchdog",
]


def test_a_quiet_worker_fetches_and_moves_no_job_and_stays(config, launch, raw_redis):
    launcher = launch()
    launcher.quiet()
    wait_for(lambda: names_of_threads() == SERVICES_OF_A_QUIET_WORKER)

    push(config, "Waits")
    raw_redis.zadd("schedule", {json.dumps({"class": "Due", "args": [], "queue": "due"}): time.time() - 60})

    assert launcher.lifecycle.quieted
    assert not launcher.lifecycle.stopping
    assert not launcher.wait(0.1)
    assert raw_redis.llen("queue:default") == 1
    assert raw_redis.zcard("schedule") == 1
    launcher.stop()
    assert raw_redis.zcard("schedule") == 1


def test_a_job_rescheduled_because_of_the_stop_does_not_start_here_again(config, launch, raw_redis, monkeypatch):
    starts: list[float] = []

    @job(name="Saves")
    def saves() -> None:
        starts.append(time.monotonic())
        assert wait_for(lambda: current_job().stopping)
        raise Reschedule(0)

    launcher = launch()
    push(config, "Saves")
    wait_for(lambda: starts)
    # A busy machine may interrupt the stop for this long between any two steps.
    monkeypatch.setattr(launcher.parts, "tell_parent", lambda: time.sleep(0.2))
    launcher.stop()

    assert len(starts) == 1
    assert raw_redis.zcard("schedule") + raw_redis.llen("queue:default") == 1


class Stuck(BasicFetcher):
    """Its loop has stopped turning long ago, while threads wait."""

    last_activity_at = 0.0
    idle_count = 1
    rebuilt = 0

    def rebuild(self) -> None:
        type(self).rebuilt += 1


@pytest.mark.parametrize("embedded", [False, True])
def test_a_worker_whose_fetch_loop_is_stuck_stops_by_itself(config, launch, monkeypatch, embedded):
    monkeypatch.setattr(watchdog, "MIN_PATIENCE_SECONDS", 0.06)
    monkeypatch.setattr(watchdog, "MAX_POP_SECONDS", 0.01)
    monkeypatch.setattr(Stuck, "rebuilt", 0)
    config.fetcher = Stuck

    launcher = launch(embedded=embedded)

    wait_for(lambda: Stuck.rebuilt >= 1)
    if embedded:  # the surrounding program keeps running
        wait_for(lambda: Stuck.rebuilt >= 3)
        assert not launcher.lifecycle.stopping
    else:
        assert launcher.wait(10)
        assert launcher.lifecycle.broken == "the fetch loop of capsule default is stuck"


# ------------------------------------------------------------------------------------------ stop


def test_a_stopped_worker_leaves_neither_threads_nor_traces(config, launch, raw_redis):
    ran = threading.Event()
    job(name="Runs")(ran.set)
    launcher = launch()
    push(config, "Runs")
    assert ran.wait(10)

    launcher.stop()

    assert raw_redis.get("stat:processed") == b"1"
    wait_for(lambda: names_of_threads() == [])
    lasting = {key for key in raw_redis.scan_iter() if raw_redis.ttl(key) == -1}
    assert lasting <= {b"queues", b"stat:processed", b"stat:failed", b"offsider:claimed"} | {
        b"offsider:events",
        b"offsider:releases",
    }
    assert raw_redis.get("stat:processed") == b"1"


def test_a_stopping_worker_announces_it_in_case_it_is_killed(config, launch, raw_redis):
    """Else the jobs of a worker that is killed during its stop would have a strike for it."""
    started, may_end = threading.Event(), threading.Event()

    @job(name="Waits")
    def waits():
        started.set()
        may_end.wait(20)

    push(config, "Waits")
    launcher = launch()
    assert started.wait(20)
    stopping = threading.Thread(target=launcher.stop)
    stopping.start()
    wait_for(lambda: raw_redis.hexists("offsider:suspects", f"{launcher.identity} stopping"))
    may_end.set()
    stopping.join(20)
    assert not raw_redis.exists("offsider:suspects")


def test_a_second_stop_waits_for_the_first(config, launch):
    entered, go_on, order = threading.Event(), threading.Event(), []

    @job(name="Long")
    def long() -> None:
        entered.set()
        assert go_on.wait(10)
        order.append("job")

    def stop() -> None:
        launcher.stop()
        order.append("stopped")

    launcher = launch()
    push(config, "Long")
    assert entered.wait(10)
    stoppers = [threading.Thread(target=stop) for _ in range(2)]
    for stopper in stoppers:
        stopper.start()
    assert not launcher.wait(0.1)
    go_on.set()
    for stopper in stoppers:
        stopper.join(10)

    assert order == ["job", "stopped", "stopped"]


# ------------------------------------------------------------------------------------- shown to all


def test_the_title_has_version_tag_and_busy_threads(config, launch):
    entered, go_on = threading.Event(), threading.Event()

    @job(name="Long")
    def long() -> None:
        entered.set()
        assert go_on.wait(10)

    config.worker.tag = "shop"
    config.capsule("other", concurrency=3, queues=["other"])
    launcher = launch()
    assert title(launcher) == f"offsider {__version__} shop [0 of 5 busy]"
    push(config, "Long")
    assert entered.wait(10)
    assert title(launcher) == f"offsider {__version__} shop [1 of 5 busy]"
    launcher.quiet()
    assert title(launcher) == f"offsider {__version__} shop [1 of 5 busy] stopping"
    go_on.set()


# ---------------------------------------------------------------------------------------- leader


def test_the_workers_of_all_servers_elect_one_leader(config, launch, raw_redis, tmp_path, other_url):
    file = tmp_path / "offsider.toml"
    file.write_text(
        f'concurrency = 1\n[redis]\nurl = "{config.redis.url}"\n[servers.bulk]\nurl = "{other_url}"\n'
        '[shards.bulk]\nqueues = ["bulk"]\nserver = "bulk"'
    )
    elsewhere = Config.load(file, environ={}, overrides={"shard": "bulk"})
    elsewhere.on("leader", lambda: None)
    launcher = launch(elsewhere)
    wait_for(lambda: raw_redis.get("dear-leader") == launcher.identity.encode())
    config.on("leader", lambda: None)
    launch()
    shown = wait_for(lambda: ProcessSet(elsewhere).find(launcher.identity))
    assert shown.leader
    assert ProcessSet(elsewhere).leader == ProcessSet(config).leader == launcher.identity
    assert (Installation.of(elsewhere).is_leader, Installation.of(config).is_leader) == (True, False)
    with redis.Redis.from_url(other_url) as bulk:
        assert not bulk.exists("dear-leader")
