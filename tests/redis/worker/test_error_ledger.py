"""The counts of runs and errors, compared with a ledger: two releases, three minutes, three errors, retries, deaths."""

from __future__ import annotations

import io
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from offsider import job
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import Attempts, DeadSet, ErrorGroups, RetrySet
from offsider.logs.setup import JobFieldsFilter
from offsider.runtime.propagation import context
from offsider.storage import run_counts
from offsider.testing import FakeClock
from offsider.worker.launcher import Launcher
from tests.redis.worker.conftest import make_config
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")

shop = logging.getLogger("shop.of.the.ledger")
#: Class, class of errors, minute and release -> failed runs, jobs, deaths.
Errors = dict[tuple[str, str, int, str], list[int]]
#: Class, minute and release -> runs, failed runs.
Runs = dict[tuple[str, int, str], list[int]]
NAMES = {"ok": "Mail", "country": "Mail", "missing": "Mail", "broken": "Mail", "async": "Call"}


def tax_rate(country: str | None) -> float:
    return {"DE": 0.19}[country or ""]


class Ledger:
    """What was pushed and ran."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock(time.time() // 60 * 60 + 30)
        self.start = self.clock.now() - 30
        self.errors: Errors = {}
        self.runs: Runs = {}
        self.users: Counter[str] = Counter()
        self.release = ""

    def config(self) -> Config:
        config = make_config(self.url)
        config.clock = self.clock
        config.client.app_version = self.release
        config.worker.concurrency = 4
        return config

    @contextmanager
    def worker(self, release: str) -> Iterator[Client]:
        """Run a worker of a release. Its last counts are written two minutes after its runs."""
        self.release = release
        config = self.config()
        launcher = Launcher(config)
        launcher.start()
        try:
            yield Client(config)
        finally:
            self.clock.advance(120)
            launcher.stop()

    def push(self, client: Client, **jobs: int) -> None:
        """Push jobs of each kind, and wait until each has run once."""
        for kind, count in jobs.items():
            for number in range(count):
                with context(user=f"{kind}-{number % 5}", project="acme"):
                    client.push({"class": NAMES[kind], "args": [kind], "retry": 0 if kind == "broken" else 1})
        self.ran(jobs, first=True)

    def retry(self, **jobs: int) -> None:
        """Retry all jobs in the retry set, and wait until each has run."""
        assert RetrySet(self.config()).enqueue_all() == sum(jobs.values())
        self.ran(jobs, first=False)

    def ran(self, jobs: dict[str, int], *, first: bool) -> None:
        minute = int((self.clock.now() - self.start) // 60)
        for kind, count in jobs.items():
            name = NAMES[kind]
            error = {"ok": "", "broken": "ZeroDivisionError"}.get(kind, "KeyError")
            died = error and (kind == "broken" or not first)
            runs = self.runs.setdefault((name, minute, self.release), [0, 0])
            runs[0] += count
            if error:
                runs[1] += count
                cells = self.errors.setdefault((name, error, minute, self.release), [0, 0, 0])
                for place, counted in enumerate((True, first, died)):
                    cells[place] += count if counted else 0
        failed, died = (sum(cells[place] for cells in self.errors.values()) for place in (0, 2))
        wait_for(lambda: len(DeadSet(self.config())) == died)
        wait_for(lambda: sum(group.attempts for group in ErrorGroups(self.config()).page()) == failed)
        queue = Installation.of(self.config()).redis
        wait_for(lambda: queue.call("LLEN", queue.keys.queue("default")) == 0)


@pytest.fixture
def ledger(redis_url, raw_redis, monkeypatch):
    """A ledger, after all runs."""
    handler = logging.StreamHandler(io.StringIO())
    handler.addFilter(JobFieldsFilter())
    monkeypatch.setattr(shop, "handlers", [handler])
    monkeypatch.setattr(shop, "level", logging.INFO)

    @job(name="Mail")
    def mail(kind: str) -> None:
        shop.info("sending %s", kind)
        if kind == "broken":
            assert 1 / 0
        elif kind != "ok":
            tax_rate("FR" if kind == "country" else None)

    @job(name="Call")
    async def call(kind: str) -> None:
        shop.warning("calling %s", kind)
        tax_rate(kind)

    ledger = Ledger(redis_url)
    with ledger.worker("v1") as client:
        ledger.push(client, ok=40, country=7, missing=4)
        ledger.clock.advance(60)
        ledger.push(client, ok=10, broken=3)
        ledger.retry(country=7, missing=4)
    with ledger.worker("v2") as client:
        ledger.push(client, ok=20, country=5, **{"async": 6})
    return ledger


def check_errors(ledger: Ledger, config: Config) -> None:
    groups = {(group.name, group.error_class): group for group in ErrorGroups(config).page()}
    assert set(groups) == {(name, error) for name, error, _, _ in ledger.errors}
    for (name, error), group in groups.items():
        own = {of[2:]: cells for of, cells in ledger.errors.items() if of[:2] == (name, error)}
        assert [group.attempts, group.jobs, group.deaths] == [sum(cells) for cells in zip(*own.values(), strict=True)]
        minutes = ErrorGroups(config).minutes(group.id, ledger.start, ledger.clock.now())
        assert {
            (int((each.at - ledger.start) // 60), each.release): [each.attempts, each.jobs, each.deaths]
            for each in minutes
        } == own
        assert group.tenants == {"acme": group.attempts}
        assert group.hosts == {socket.gethostname(): group.attempts}
        assert (sum(group.releases.values()), sum(group.messages.values())) == (group.attempts, group.attempts)
    keys = groups["Mail", "KeyError"]
    assert keys.messages == {"'FR'": 19, "''": 8}
    assert (keys.first_release, keys.last_release) == ("v1", "v2")
    assert (keys.user_count, len(keys.users), sum(keys.users.values())) == (9, 8, 27 - min(keys.users.values()))
    place = ("tests/redis/worker/test_error_ledger.py", "tax_rate", tax_rate.__code__.co_firstlineno + 1)
    assert keys.frame == groups["Call", "KeyError"].frame == place
    assert f"line {place[2]}, in tax_rate" in keys.traceback


def check_runs(ledger: Ledger, config: Config) -> None:
    redis, until = Installation.of(config).redis, ledger.clock.now()
    found = [each for name in ("Mail", "Call") for each in run_counts.release_minutes(redis, ledger.start, until, name)]
    assert {
        (series.labels["class"], int((at - ledger.start) // 60), series.labels["release"]): [
            series.processed,
            series.failed,
        ]
        for at, series in found
    } == ledger.runs
    for _, series in found:
        assert (sum(series.run_buckets), sum(series.failed_buckets)) == (series.processed, series.failed)
        assert (sum(series.queue_buckets), series.late) == (series.processed, 0)
        assert 0 <= series.failed_seconds <= series.run_seconds
        assert (series.failed_seconds > 0) == (series.failed > 0)


def check_attempts(config: Config) -> None:
    """A failed job has its attempts with release, frame and log."""
    dead = {(entry.args[0], entry["error_class"]): entry for entry in DeadSet(config)}
    last, first = Attempts.of(dead["country", "KeyError"].jid, config)
    assert [(attempt.number, attempt.release, attempt.frame.function) for attempt in (first, last)] == [
        (1, "v1", "tax_rate"),
        (2, "v1", "tax_rate"),
    ]
    assert first.host == f"{socket.gethostname()}:{os.getpid()}"
    assert [(line.level, line.message) for line in last.log] == [("INFO", "sending country")]
    retried = next(entry for entry in RetrySet(config) if entry.name == "Call")
    (attempt,) = Attempts.of(retried.jid, config)
    assert [(line.level, line.message) for line in attempt.log] == [("WARN", "calling async")]
    assert attempt.release == "v2"


def test_every_number_of_runs_and_errors_is_exact(ledger):
    config = ledger.config()
    check_errors(ledger, config)
    check_runs(ledger, config)
    check_attempts(config)
