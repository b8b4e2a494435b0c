"""The series store: counts by metric, labels and step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offsider.storage import error_groups, run_counts, samples, series
from offsider.storage.series import MINUTE, TEN_MINUTES, TOTAL, Metric

NOW = 1_800_000_000.0  # a whole hour since the epoch, and no whole day
MAILS = Metric("mails", 2, (MINUTE, TEN_MINUTES, TOTAL))


@pytest.fixture
def write(pool):
    def write(*cells: int, at: float = NOW, metric: Metric = MAILS, **labels: str) -> None:
        commands = series.commands_of(pool.keys, metric, [(labels, cells)], at)
        if commands:
            pool.pipeline(commands)

    return write


def read(pool, step=TOTAL, since=0.0, until=0.0, **where):
    found = series.read(pool, MAILS, step, since, until, where=where)
    return {tuple(sorted(one.labels.items())): [list(cells) for cells in one.steps] for one in found}


A, B = (("class", "A"),), (("class", "B"),)


def test_counts_of_all_processes_are_summed_in_each_step(pool, write):
    write(1, 10, at=NOW, **{"class": "A"})
    write(2, 20, at=NOW + 59, **{"class": "A"})
    write(3, 0, at=NOW + 60, **{"class": "A"})
    write(0, 5, at=NOW + 700, **{"class": "B"})
    assert read(pool) == {A: [[6, 30]], B: [[0, 5]]}
    assert read(pool, MINUTE, NOW - 60, NOW + 60) == {A: [[0, 0], [3, 30], [3, 0]]}
    assert read(pool, TEN_MINUTES, NOW, NOW + 600) == {A: [[6, 30], [0, 0]], B: [[0, 0], [0, 5]]}


def test_label_sets_can_be_chosen_by_their_labels(pool, write):
    write(1, 1, **{"class": "A", "queue": "low"})
    write(2, 2, **{"class": "B", "queue": "low"})
    assert list(read(pool, **{"class": "B"}).values()) == [[[2, 2]]]
    assert read(pool, **{"class": "A", "queue": "high"}) == {}


def test_each_step_is_kept_for_its_time(pool, raw_redis, write):
    write(1, 1, **{"class": "A"})
    kept = {key.split(b":")[3].decode(): raw_redis.ttl(key) for key in raw_redis.keys("offsider:series:mails:*")}
    assert kept == {
        "1m": pytest.approx(8 * 3600, abs=60),
        "10m": pytest.approx(14 * 86400, abs=60),
        "total": pytest.approx(30 * 86400, abs=60),
    }
    assert 0 < raw_redis.ttl("offsider:series:mails") <= TOTAL.keep_seconds


def test_a_label_set_without_additions_is_forgotten(pool, write):
    write(1, 1, at=NOW - TOTAL.keep_seconds - 1, **{"class": "A"})
    write(1, 1, **{"class": "B"})
    assert list(read(pool)) == [B]


def test_label_sets_beyond_the_bound_are_deleted_with_their_counts(pool, raw_redis, write):
    mails = Metric("mails", 2, (TEN_MINUTES, TOTAL), max_label_sets=2)
    for number in range(4):
        for days in range(0, 14, 5):
            write(1, 1, at=NOW + number - days * 86400, metric=mails, **{"class": f"A{number}"})
    series.trim(pool, [mails, Metric("empty", 1, (TOTAL,))], NOW)
    assert sorted(labels[0][1] for labels in read(pool)) == ["A2", "A3"]
    assert raw_redis.keys("*A0*") == raw_redis.keys("*A1*") == []
    before = sorted(raw_redis.keys())
    series.trim(pool, [mails], NOW)
    assert sorted(raw_redis.keys()) == before


def test_a_count_stays_at_its_highest_value(pool, write):
    for metric, highest in ((MAILS, 2**63 - 1), (Metric("runs", 2, (TOTAL,), bits=32), 2**32 - 1)):
        write(highest, 1, metric=metric, **{"class": "A"})
        write(1, 1, metric=metric, **{"class": "A"})
        [found] = series.read(pool, metric, TOTAL)
        assert found.sums() == [highest, 2]


def test_a_label_set_whose_counts_have_expired_is_left_out(pool, raw_redis, write):
    write(1, 1, **{"class": "A"})
    write(1, 1, **{"class": "B"})
    raw_redis.delete(*[key for key in raw_redis.keys("offsider:series:mails:total:*") if b'"A"' in key])
    assert list(read(pool)) == [B]


@pytest.mark.parametrize("member", ["junk", "[1]", b"\xff", "[" * 100_000])
def test_other_members_of_the_index_are_ignored(pool, raw_redis, write, member):
    write(1, 1, **{"class": "A"})
    raw_redis.zadd("offsider:series:mails", {member: NOW})
    assert list(read(pool)) == [A]


def test_other_values_are_read_as_nothing(pool, raw_redis, write):
    write(1, 1, **{"class": "A"})
    (key,) = raw_redis.keys("offsider:series:mails:total:*")
    raw_redis.delete(key)
    raw_redis.hset(key, "a", "hash")
    assert read(pool) == {}
    raw_redis.set(key, b"\0" * 15 + b"\x07" + b"more than two cells")
    assert read(pool) == {A: [[0, 7]]}


def test_a_label_that_is_not_text_is_ignored(pool, raw_redis, write):
    raw_redis.zadd("offsider:series:mails", {'{"class":1,"queue":"q"}': NOW})
    raw_redis.set('offsider:series:mails:total:0:{"class":1,"queue":"q"}', b"\0" * 15 + b"\x07")
    assert read(pool) == {(("queue", "q"),): [[0, 7]]}


@pytest.mark.parametrize(
    "metric,steps,most",
    [
        (run_counts.RUNS, range(0, 600, 60), 1_000),
        (run_counts.SLO, range(0, 14 * 86400, 600), 48_000),
        (run_counts.SHARDS, range(0, 8 * 3600, 60), 15_000),
        (run_counts.RELEASES, range(0, 8 * 3600, 60), 170_000),
        (run_counts.FAILED, range(0, 8 * 3600, 60), 120_000),
        (run_counts.RELEASE_TOTALS, range(0, 600, 60), 500),
        (error_groups.ERRORS, range(0, 8 * 3600, 60), 15_000),
        (run_counts.SOURCES, range(0, 8 * 3600, 60), 8_000),
        (samples.QUEUES, range(0, 8 * 3600, 60), 15_000),
        (samples.SERVER, range(0, 8 * 3600, 60), 60_000),
    ],
)
def test_a_label_set_uses_at_most_the_documented_memory(pool, raw_redis, metric, steps, most):
    labels = {"class": "shop.orders.send_invoice", "feature_category": "billing", "queue": "default", "urgency": "high"}
    cells = [1000 + cell for cell in range(metric.cells)]
    commands = [
        command for at in steps for command in series.commands_of(pool.keys, metric, [(labels, cells)], NOW + at)
    ]
    pool.pipeline(commands)
    used = sum(raw_redis.memory_usage(key) for key in raw_redis.scan_iter(f"offsider:series:{metric.name}:*"))
    assert most / 4 < used < most
    page = (Path(__file__).parents[3] / "docs" / "internals" / "keys.md").read_text()
    assert re.search(rf"^\| `{metric.name}` .*\| {most:,} \|$", page, re.MULTILINE)
