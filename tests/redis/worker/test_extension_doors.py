"""One extension that uses every hook at once, as a base for later features."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.config.web_tab import WebTab
from offsider.core.errors import InvalidOptions
from offsider.inspector import RetrySet, ScheduledSet
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.runtime.events import ExecutionFinished, JobRemoved
from offsider.runtime.middleware import Middleware, Push
from offsider.runtime.service import Loop
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.scripts import Script
from offsider.worker.embed import EmbeddedWorker
from offsider.worker.fetch.reliable import ReliableFetcher
from tests.waiting import wait_for

TICKED = f"{DEFAULT_PREFIX}everything:ticks"


class CountingFetcher(ReliableFetcher):
    """A fetcher of the extension's own."""

    retrieved = 0

    def retrieve(self):
        unit = super().retrieve()
        if unit is not None:
            type(self).retrieved += 1
        return unit


class Everything:
    """Counts, routes, ticks, and listens."""

    name = "everything"

    def __init__(self, folder) -> None:
        self.folder = folder
        self.seen: list[str] = []
        self.finished: list[ExecutionFinished] = []
        self.removed: list[JobRemoved] = []
        self.deaths: list[dict[str, Any]] = []
        self.lifecycle: list[str] = []
        self.ticked = threading.Event()

    def install(self, config: Config) -> None:
        config.client_middleware.add(self.stamp)
        config.server_middleware.add(self.around)
        config.on("execution_finished", self.finished.append)
        config.on("job_removed", self.removed.append)
        for event in ("startup", "quiet", "shutdown", "exit", "heartbeat", "beat"):
            config.on(event, lambda event=event: self.lifecycle.append(event))
        config.death_handlers.append(lambda payload, error: self.deaths.append(dict(payload)))
        config.add_service(self.make_service)
        config.add_job_option("colour", self.check_colour)
        config.add_info(lambda: {"everything": {"version": 1}})
        config.add_web_tab(WebTab("everything", "Everything", "/everything", {"": lambda: "page"}))
        config.queue_resolver = lambda push: "resolved" if push.payload.get("colour") == "red" else None
        config.fetcher = CountingFetcher

    def stamp(self, push: Push) -> Middleware:
        self.seen.append(f"{push.reason} on {push.payload['queue']}")
        push.payload["stamped"] = push.reason  # type: ignore[typeddict-unknown-key]
        yield

    def around(self, context: JobContext) -> Middleware:
        context.log["everything"] = True
        yield

    @staticmethod
    def check_colour(value: object) -> None:
        if value not in {"red", "blue"}:
            raise ValueError(f"colour is red or blue, got {value!r}")

    def make_service(self, config: Config) -> Loop:
        script = Script("tick", folder=self.folder)
        redis = Installation.of(config).make_redis(1)

        def tick() -> float:
            redis.run(script, [TICKED], [2])
            self.ticked.set()
            return 0.05

        return Loop("everything-ticker", tick, on_error=config.handle_error)


@pytest.fixture
def everything(tmp_path) -> Everything:
    (tmp_path / "tick.lua").write_text(
        "#!lua flags=allow-oom\n-- Count ticks.\n-- KEYS[1] counter\n-- ARGV[1] step\n-- returns the count\n"
        "return redis.call('INCRBY', KEYS[1], ARGV[1])\n"
    )
    return Everything(tmp_path)


@pytest.fixture
def config(redis_url, everything):
    config = Config()
    config.redis.url = redis_url
    config.worker.queues = ["resolved", "default"]
    config.worker.timeout_seconds = 2
    config.use(everything)
    return config


def test_one_extension_reaches_through_every_door(config, everything, raw_redis, monkeypatch):
    monkeypatch.setattr(CountingFetcher, "retrieved", 0)
    with registry.isolated():
        ran = threading.Event()

        @job(name="Red", extra={"colour": "red"}, retry=False)
        def red() -> None:
            ran.set()

        @job(name="Dies", retry=0)
        def dies() -> None:
            raise LookupError("gone")

        client = Client(config)
        red.via(client).enqueue()
        dies.via(client).enqueue()
        dies.via(client).enqueue_in(3600)
        worker = EmbeddedWorker(config)
        worker.start()
        try:
            assert ran.wait(10)
            assert everything.ticked.wait(10)
            wait_for(lambda: len(everything.finished) == 2)
            (process,) = raw_redis.smembers("processes")
            wait_for(lambda: raw_redis.hget(process, "info"))
            info = json.loads(raw_redis.hget(process, "info"))
        finally:
            worker.stop()
        entry = next(iter(ScheduledSet(config)))
        assert entry.delete()

    assert everything.seen == ["push on resolved", "push on default", "push on default"]
    assert sorted(finished.outcome for finished in everything.finished) == ["died", "succeeded"]
    assert all(finished.job.log == {"everything": True} for finished in everything.finished)
    assert [death["class"] for death in everything.deaths] == ["Dies"]
    assert [(removed.where, removed.how) for removed in everything.removed] == [("schedule", "delete")]
    assert info["everything"] == {"version": 1}
    assert int(raw_redis.get(TICKED)) >= 2
    assert CountingFetcher.retrieved == 2
    assert [tab.title for tab in config.web_tabs] == ["Everything"]
    assert everything.lifecycle[0] == "startup"
    assert everything.lifecycle[-3:] == ["quiet", "shutdown", "exit"]
    assert {"heartbeat", "beat"} <= set(everything.lifecycle)
    assert len(RetrySet(config)) == 0


def test_an_option_of_no_extension_is_refused_at_the_first_push(redis_url):
    config = Config()
    config.redis.url = redis_url
    with registry.isolated():

        @job(extra={"colour": "red"})
        def painted() -> None: ...

        with pytest.raises(InvalidOptions, match="colour"):
            painted.via(Client(config)).enqueue()
