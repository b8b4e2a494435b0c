"""`bench stress` passes with the real engine, and fails with a deliberately broken one."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import deque

import pytest

from bench.stress.harness import Plan, play
from bench.stress.jobs import Pauses
from offsider.worker.fetch.state import Prefetched

#: With it, the third and the fourth fault are kills.
SEED = 19


@pytest.fixture
def failed():
    """Plays a plan that has to fail; its logs are not kept."""
    kept = []

    def play_failing(plan):
        report = play(plan)
        kept.append(report.figures["logs of the workers"])
        return report

    yield play_failing
    for folder in kept:
        shutil.rmtree(folder)


def test_a_short_run_loses_nothing():
    report = play(Plan(SEED, seconds=10, processes=2))
    assert report.missed == []
    assert report.tally.ran == report.tally.acked > 100
    assert sum(int(fault.rpartition(" ")[2]) for fault in report.figures["faults"].split(", ")) > 5


def test_claims_that_the_engine_forgets_and_threads_that_it_leaves_are_reported(failed):
    report = failed(Plan(SEED, seconds=5, processes=2, app="tests.bench.stressed.forgetful", quiet_seconds=6))
    assert report.tally.stranded + report.tally.left > 0
    assert any(what.startswith(("stranded", "left")) for what in report.missed), report.missed
    assert any(what.startswith("threads left") for what in report.missed), report.missed


def test_jobs_that_the_engine_acknowledges_too_early_are_reported_as_lost(failed):
    kills = {"killed process": 1}
    report = failed(Plan(SEED, 10, processes=2, app="tests.bench.stressed.hasty", quiet_seconds=6, faults=kills))
    assert report.tally.lost > 0
    assert f"lost 0, got {report.tally.lost}" in report.missed


def test_threads_pause_only_at_lines_of_the_engine(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)

    def runs(function):
        before = len(slept)
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()
        return len(slept) - before

    before = sys.gettrace()
    try:
        Pauses("seed", 1).install()
        engine, elsewhere = runs(Prefetched), runs(lambda: deque([1]).pop())
    finally:
        threading.settrace(None)
        sys.settrace(before)
    assert engine >= 4, "a constructor of four lines"
    assert elsewhere == 0
