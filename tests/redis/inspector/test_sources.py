"""Runs by class, caller and tenant, compared with a ledger."""

from __future__ import annotations

from collections import Counter

import pytest

from offsider import context, job
from offsider.config.installation import Installation
from offsider.inspector import run_sources
from offsider.testing import FakeClock
from offsider.worker import run_account
from offsider.worker.embed import EmbeddedWorker
from offsider.worker.run_account import MAX_SOURCES, MAX_WRITTEN_SOURCES, RunAccount
from offsider.worker.run_writer import RunWriter
from offsider.worker.work_state import WorkState
from tests.runs import fail, unit
from tests.waiting import wait_for

MINUTE = 1_800_000_000.0


def counts(config, **options) -> dict[tuple[str, str, str], int]:
    return {(one.class_name, one.caller, one.tenant): one.runs for one in run_sources(config=config, **options)}


@pytest.mark.usefixtures("default_config")
def test_each_run_counts_under_the_caller_and_the_tenant_of_its_push(config, raw_redis):
    ledger: Counter[tuple[str, str, str]] = Counter()

    @job(name="Leaf", retry=False)
    def leaf(number: int) -> None:
        if number % 3 == 0:
            raise ValueError

    @job(name="Root")
    def root(number: int) -> None:
        leaf.enqueue(number)

    for number in range(12):
        with context(caller_id="GET /orders", project=f"shop/{number % 4}"):
            root.enqueue(number)
        ledger[("Root", "GET /orders", f"shop/{number % 4}")] += 1
        ledger[("Leaf", "Root", f"shop/{number % 4}")] += 1
    with context(tenant=7, project="shop"):
        root.enqueue(1)
    ledger[("Root", "", "7")] += 1
    ledger[("Leaf", "Root", "7")] += 1
    leaf.enqueue(1)  # no context
    with EmbeddedWorker(config):
        wait_for(lambda: raw_redis.get("stat:processed") == b"27")
    assert counts(config) == ledger
    assert counts(config, class_name="Leaf") == {source: runs for source, runs in ledger.items() if source[0] == "Leaf"}
    assert sum(sum(one.minutes) for one in run_sources(config=config)) == 26


@pytest.fixture
def written(config):
    """Counts that an account has been given, written by the clock of the test."""
    config.clock = FakeClock(MINUTE + 90)

    def write(runs: RunAccount) -> None:
        state = WorkState()
        state.runs = runs
        redis = Installation.of(config).redis
        RunWriter(config, redis, state, quiet=lambda: False, concurrency=lambda: 1).write()

    return write


def of(source: str, at: float, runs: int = 1, **fields):
    meta = {"correlation_id": "c", "meta.caller_id": source, **fields}
    return [unit("A", started_at=at, **meta) for _ in range(runs)]


def test_the_most_frequent_sources_of_a_minute_are_listed_and_the_others_are_one_number(config, written):
    runs = RunAccount()
    for number in range(60):
        runs.finished(of(f"caller {number:02}", MINUTE, runs=number + 1))
    runs.finished(of("caller 00", MINUTE + 60))
    fail(runs, *of("caller 01", MINUTE + 60))
    runs.finished([unit("Odd", known=False, started_at=MINUTE, correlation_id="c")])
    written(runs)
    found = counts(config)
    least = 60 - MAX_WRITTEN_SOURCES
    others = sum(range(1, least + 1)) + 1  # one is of a class that nobody has declared
    assert found == {
        ("", "", ""): others,
        ("A", "caller 00", ""): 1,
        ("A", "caller 01", ""): 1,
        **{("A", f"caller {number:02}", ""): number + 1 for number in range(least, 60)},
    }
    by_minute = {one.caller: list(one.minutes)[-2:] for one in run_sources(2, config=config)}
    assert (by_minute["caller 59"], by_minute["caller 01"]) == ([60, 0], [0, 1])
    assert sum(found.values()) == sum(range(61)) + 3


def test_the_number_of_sources_in_memory_is_bounded_and_no_run_is_lost(config, written, monkeypatch):
    monkeypatch.setattr(run_account, "MAX_SOURCES", 3)
    runs = RunAccount()
    for number in range(5):
        runs.finished(of(f"caller {number}", MINUTE))
    runs.finished(of("caller 0", MINUTE))
    written(runs)
    assert counts(config) == {
        ("A", "caller 0", ""): 2,
        ("A", "caller 1", ""): 1,
        ("A", "caller 2", ""): 1,
        ("", "", ""): 2,
    }
    assert MAX_SOURCES == 1_000


def test_counts_that_could_not_be_written_are_kept():
    runs = RunAccount()
    runs.finished(of("caller", MINUTE, runs=2))
    taken = runs.take()
    runs.finished(of("caller", MINUTE))
    runs.restore(taken)
    assert runs.take().by_source() == {("A", "caller", ""): 3}
    assert runs.take(classes=False).by_source() == {}


def test_odd_contexts_of_other_clients_are_counted(config, written):
    runs = RunAccount()
    runs.finished(of(["list"], MINUTE))
    runs.finished(of("é" * 300, MINUTE, **{"meta.project": {"a": 1}}))
    runs.finished(of("\ud800", MINUTE, **{"meta.project": True}))
    written(runs)
    assert counts(config) == {("A", "", ""): 1, ("A", "é" * 255, ""): 1, ("A", "?", "True"): 1}
