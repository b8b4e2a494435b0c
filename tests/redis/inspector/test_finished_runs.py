"""The flight recorder: a ring of finished runs, compared with a ledger of what ran."""

from __future__ import annotations

import random
import time

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.core.outcome import Skipped
from offsider.core.payload import new_jid
from offsider.inspector import FinishedRun, FinishedRuns
from offsider.storage import finished_runs
from offsider.storage.finished_runs import KEEP_SECONDS, RING_BYTES, RUN_BYTES, Runs
from offsider.worker.embed import EmbeddedWorker
from offsider.worker.run_account import RunAccount
from tests.runs import fail, unit
from tests.waiting import wait_for

AT = 1_800_000_000.125


@pytest.fixture
def pool(config):
    return Installation.of(config).redis


@pytest.fixture
def small(monkeypatch):
    """A ring of ten runs, which is searched in parts of three."""
    monkeypatch.setattr(finished_runs, "RING_BYTES", 10 * RUN_BYTES)
    monkeypatch.setattr(finished_runs, "PART_RUNS", 3)


def add(pool, *runs, numbers=None, name="A", release="v1", outcome="succeeded"):
    """Store runs, each given as job id and start."""
    jids, starts = [jid for jid, _ in runs], [start for _, start in runs]
    columns = {(name, outcome): Runs(jids, starts, [0.25] * len(runs))}
    finished_runs.add(pool, columns, release, {} if numbers is None else numbers)


@pytest.mark.usefixtures("default_config")
def test_each_run_of_a_worker_is_found_by_its_job_and_its_class(config, raw_redis):
    config.client.app_version = "v42"

    @job(name="Fine")
    def fine() -> None:
        time.sleep(0.01)

    @job(name="Bad", retry=0)
    def bad() -> None:
        raise ValueError

    @job(name="Late", retry=5)
    def late() -> None:
        raise ValueError

    before = time.time()
    jids = [fine.enqueue() for _ in range(5)]
    jids_of_bad, jid_of_late = bad.enqueue(), late.enqueue()
    with EmbeddedWorker(config):
        wait_for(lambda: raw_redis.strlen("offsider:runs") == 7 * RUN_BYTES)
    found = FinishedRuns(config)
    for jid in jids:
        (run,) = found.of_job(jid)
        assert (run.jid, run.class_name, run.release, run.outcome) == (jid, "Fine", "v42", "succeeded")
        assert before <= run.started_at <= time.time()
        assert 0.01 <= run.duration_seconds < 10
    assert [(run.class_name, run.outcome) for run in found.of_job(jids_of_bad)] == [("Bad", "died")]
    assert [(run.class_name, run.outcome) for run in found.of_job(jid_of_late)] == [("Late", "failed")]
    assert {run.jid for run in found.of_class("Fine")} == {*jids}
    assert found.of_class("Unknown") == found.of_job(new_jid()) == []
    assert 0 < raw_redis.ttl("offsider:runs") <= KEEP_SECONDS
    assert 0 < raw_redis.ttl("offsider:runs:kinds") <= KEEP_SECONDS


def test_without_runs_nothing_is_found(config):
    found = FinishedRuns(config)
    assert (found.since, found.of_job("a"), found.of_class("A")) == (None, [], [])


def test_the_ring_keeps_the_latest_runs_across_its_end(config, pool, raw_redis, small):
    numbers = {}
    jids = [new_jid() for _ in range(47)]
    found, stored = FinishedRuns(config), 0
    for size in (4, 3, 3, 4, 7, 9, 10, 7):
        part = [(jids[place], AT + place) for place in range(stored, stored + size)]
        stored += size
        add(pool, *part, numbers=numbers)
        kept = jids[max(0, stored - 10) : stored]
        assert [run.jid for run in found.of_class("A")] == kept[::-1]
        assert [run.jid for run in found.of_class("A", 2)] == kept[:-3:-1]
        assert [bool(found.of_job(jid)) for jid in jids] == [jid in kept for jid in jids]
        assert found.since == AT + max(0, stored - 10)
    assert raw_redis.strlen("offsider:runs") == 10 * RUN_BYTES


def test_all_runs_of_a_job_are_found_the_latest_first(config, pool):
    jid = new_jid()
    add(pool, (jid, AT), outcome="failed")
    add(pool, (jid, AT + 60), release="v2")
    assert FinishedRuns(config).of_job(jid) == [
        FinishedRun(jid, "A", "v2", "succeeded", AT + 60, 0.25),
        FinishedRun(jid, "A", "v1", "failed", AT, 0.25),
    ]


@pytest.mark.parametrize("jid", ["order-7", "A" * 24, "1" * 25, " " * 24, "é", "0" * 23 + "g"])
def test_another_job_id_is_found_by_its_digest(config, pool, jid):
    plain = new_jid()
    add(pool, (jid, AT), (plain, AT + 1), ("b" * 23, AT + 2))
    found = FinishedRuns(config)
    assert [(run.jid, run.class_name, run.started_at) for run in found.of_job(jid)] == [("", "A", AT)]
    assert [run.jid for run in found.of_class("A")] == ["", plain, ""]
    assert [run.started_at for run in found.of_job(plain)] == [AT + 1]


def test_capital_digits_are_another_job_id(config, pool):
    plain = new_jid()
    add(pool, ("A" * 24, AT), (plain, AT + 1))
    assert [run.started_at for run in FinishedRuns(config).of_job("A" * 24)] == [AT]
    assert FinishedRuns(config).of_job("a" * 24) == []


def test_ids_of_only_digits_are_plain(config, pool):
    add(pool, ("1" * 24, AT), ("2" * 24, AT))
    assert [run.jid for run in FinishedRuns(config).of_job("2" * 24)] == ["2" * 24]


def test_bytes_inside_of_runs_are_no_match(config, pool):
    """Ids that contain the end of one run and the begin of the next, and the numbers of kinds."""
    add(pool, *[("00" * 12, 0.0)] * 50, name="Other")
    add(pool, ("01" + "00" * 11, 0.0))
    found = FinishedRuns(config)
    assert len(found.of_job("00" * 12)) == 50
    assert len(found.of_class("A")) == 1


def test_a_kind_that_lost_its_number_is_unknown_and_never_another_one(config, pool, monkeypatch):
    monkeypatch.setattr(finished_runs, "MAX_KINDS", 3)
    numbers_of_a = {}
    jids = {name: new_jid() for name in "ABCDE"}
    for name in "ABCD":
        add(pool, (jids[name], AT), name=name, numbers=numbers_of_a if name == "A" else None)
    found = FinishedRuns(config)
    assert {name: [run.class_name for run in found.of_job(jids[name])] for name in "ABCD"} == {
        "A": [""],
        "B": ["B"],
        "C": ["C"],
        "D": ["D"],
    }
    assert [run.jid for run in found.of_class("D")] == [jids["D"]]
    later = new_jid()
    add(pool, (later, AT), name="A", numbers=numbers_of_a)  # its process does not know that the number has gone
    assert [run.class_name for run in found.of_job(later)] == ["A"]
    assert [run.class_name for run in found.of_job(jids["B"])] == [""]


@pytest.mark.parametrize(
    "seconds, shown", [(0.0, 0.0), (0.001234, 0.00123), (12.34, 12.3), (1e6, 65500.0), (-1.0, 0.0)]
)
def test_a_duration_has_three_digits(config, pool, seconds, shown):
    finished_runs.add(pool, {("A", "succeeded"): Runs(["a" * 24], [AT], [seconds])}, "", {})
    assert FinishedRuns(config).of_job("a" * 24)[0].duration_seconds == shown


def test_above_the_rate_no_further_runs_are_recorded_until_the_next_write():
    runs = RunAccount(recorded_per_second=5)
    runs.finished([unit("A") for _ in range(3)])
    runs.finished([unit("B", waited=None) for _ in range(3)])
    fail(runs, unit("A"))
    taken = runs.take(classes=False)
    assert {kind: len(one.jids) for kind, one in taken.recorded.items()} == {
        ("A", "succeeded"): 3,
        ("B", "succeeded"): 2,
    }
    fail(runs, unit("A"), retried=False)
    assert list(runs.take().recorded) == [("A", "died")]
    off = RunAccount()
    off.finished([unit("A")])
    assert off.take().recorded == {}


def test_runs_that_are_acknowledged_together_keep_their_own_outcome():
    runs = RunAccount(recorded_per_second=5)
    units = [unit("A", jid=jid) for jid in "abcd"]
    units[1].run.outcome = units[3].run.outcome = Skipped("expired")
    runs.finished(units)
    taken = runs.take().recorded
    assert {kind: one.jids for kind, one in taken.items()} == {
        ("A", "succeeded"): ["a", "c"],
        ("A", "skipped"): ["b", "d"],
    }


def test_a_full_ring_is_as_large_as_documented_and_searched_in_parts(config, pool, raw_redis):
    """The other runs are random bytes, as job ids are."""
    others = RING_BYTES - 100 * RUN_BYTES
    raw_redis.set("offsider:runs", random.Random(1).randbytes(others))
    raw_redis.hset("offsider:runs:kinds", "written", others)
    jids = [new_jid() for _ in range(200)]
    add(pool, *[(jid, AT) for jid in jids])
    assert raw_redis.strlen("offsider:runs") == RING_BYTES == 16_777_200
    assert raw_redis.memory_usage("offsider:runs") < 17_900_000
    found = FinishedRuns(config)
    assert [run.class_name for jid in (jids[0], jids[-1]) for run in found.of_job(jid)] == ["A", "A"]
    assert found.of_job(new_jid()) == []
    assert {run.jid for run in found.of_class("A", 500)} >= {*jids}
