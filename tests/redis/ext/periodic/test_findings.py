"""Periodic jobs that are paused, in no live process, or missed are findings; jobs that run are none."""

from __future__ import annotations

import json
import time

import pytest

from offsider.config.installation import Installation
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.findings import find_periodic
from offsider.ext.periodic.store import HistoryLine, PeriodicStore
from offsider.inspector.finding import Severity
from offsider.inspector.findings import find
from tests.redis.ext.periodic import live_processes

pytestmark = pytest.mark.usefixtures("declared")
ENTRY = make("reindex", "* * * * *", "A")


@pytest.fixture
def server(make_config):
    return Installation.of(make_config())


@pytest.fixture
def published(server):
    live_processes.publish(server.redis, ENTRY)


def test_a_job_that_runs_is_no_finding(server, published):
    assert list(find_periodic(server)) == []


def ticks_since(at):
    return int(time.time() // 60 - at // 60)


@pytest.mark.parametrize("author, by", [({"by": "ann", "reason": "load"}, "ann (load)"), ({}, "an unknown client")])
def test_a_paused_job_has_its_author_and_the_skipped_ticks(server, published, raw_redis, author, by):
    PeriodicJobs(server)["reindex"].pause()
    assert list(find_periodic(server)) == []  # no tick was skipped yet
    at = time.time() // 60 * 60 - 17 * 60 + 30
    raw_redis.hset("offsider:periodic:paused", "reindex", json.dumps({"at": at, **author}))
    earlier = ticks_since(at)
    [paused] = find_periodic(server)
    assert earlier <= paused.numbers["ticks"] <= ticks_since(at)
    assert (paused.kind, paused.since) == ("stopped", at)
    assert paused.what.startswith(f"reindex: periodic job paused by {by}, 1")
    assert paused.buttons[0].path == "/periodic/reindex/resume"
    raw_redis.hset("offsider:periodic:paused", "reindex", "")
    assert [each.what for each in find_periodic(server)] == ["reindex: periodic job paused by an unknown client"]


def test_a_job_that_no_live_process_has(server):
    lost_at = time.time() // 60 * 60 - 570
    PeriodicStore(server.redis).publish([ENTRY], 1.0, lost_at)
    server.redis.call("UNLINK", "offsider:periodic:programs")  # as after three minutes
    earlier = ticks_since(lost_at)
    [orphaned] = find_periodic(server)
    assert (orphaned.name, orphaned.severity) == ("periodic orphaned", Severity.ERROR)
    missed = [f"{ticks} ticks missed" for ticks in (earlier, ticks_since(lost_at))]
    assert orphaned.what in [f"reindex: no live process pushes this periodic job, {ticks}" for ticks in missed]
    assert orphaned.since == lost_at


@pytest.mark.parametrize("age_seconds, names", [(60, ["periodic missed"]), (7_200, [])])
def test_missed_ticks_of_the_last_hour(server, published, age_seconds, names):
    at = time.time() - age_seconds
    PeriodicStore(server.redis).note("reindex", HistoryLine("skipped", int(at), at, count=1_000))
    found = list(find_periodic(server))
    assert [each.name for each in found] == names
    if found:
        assert found[0].what == "reindex: at least 1,000 ticks of this periodic job missed"


def test_the_extension_adds_them_to_all_findings(make_config, raw_redis):
    config = make_config(Periodic())
    live_processes.publish(Installation.of(config).redis, ENTRY)
    raw_redis.hset("offsider:periodic:paused", "reindex", "")
    assert "periodic paused" in {each.name for each in find(config)}
