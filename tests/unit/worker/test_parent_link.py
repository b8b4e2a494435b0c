"""The messages of a worker to its parent."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.alive.parent_link import ParentLink, WorkerLink, make_link
from offsider.worker.health_state import LEFT, CountedRuns, Report
from tests.waiting import wait_for

LISTS = Lists("host:1:aaaaaaaaaaaa", {"default": ("low",)})
REDIS = RedisSettings(sentinels=("a:1",))


@pytest.fixture
def ends():
    parents, end = make_link()
    workers = ParentLink(end)
    yield parents, workers
    parents.close()
    workers.close()


def test_each_report_is_complete_and_has_the_current_state(ends):
    parents, workers = ends
    states = iter([{}, {"state": "quiet", "stuck": ("its fetch loop stands still",), "max_strikes": 5}])
    workers.use(lambda report: replace(report, **next(states)))
    workers.repeat()
    assert parents.receive() == []
    workers.owns(LISTS, 9000, REDIS)
    workers.repeat()
    assert parents.receive() == [
        Report(LISTS, 9000, REDIS, "ready", beaten=True),
        Report(LISTS, 9000, REDIS, "quiet", ("its fetch loop stands still",), 5),
    ]


def test_the_last_report_of_a_worker_is_that_it_has_left(ends):
    parents, workers = ends
    workers.owns(LISTS, 9000, REDIS)
    workers.left()
    workers.repeat()
    workers.close()
    assert [report.state for report in parents.receive()] == ["ready", LEFT]
    assert parents.closed
    assert parents.receive() == []


def test_a_worker_reports_once_that_it_runs_and_its_stop_timeout(ends):
    parents, workers = ends
    workers.owns(LISTS, 9000, REDIS)
    parents.receive()
    assert parents.stop_seconds is None
    workers.say_ready(7.5)
    workers.owns(LISTS, 9000, REDIS)
    assert [report.stop_seconds for report in parents.receive()] == [7.5, 7.5]
    assert parents.stop_seconds == 7.5


def test_messages_of_another_version_are_ignored(ends):
    parents, workers = ends
    workers._end.sendall(b'nonsense\n{}\n[]\n{"lists": ["a", []], "redis": {}}\n')
    workers._end.sendall(b'{"counted": {}}\n')
    workers.count([Series({"class": "A"}, run_buckets=[1] * 11)], 0, 10)
    workers.count([], 0, 10)
    assert parents.receive() == [CountedRuns((), 0, 10)]


def test_counts_of_another_version_may_have_more_fields_and_fewer(ends):
    parents, workers = ends
    told = {"counted": {"series": [{"labels": {"class": "A"}, "processed": 2, "more": 1}], "busy": 0, "concurrency": 1}}
    workers._end.sendall(json.dumps(told).encode() + b"\n")
    assert parents.receive() == [CountedRuns((Series({"class": "A"}, processed=2),), 0, 1)]


def test_a_report_of_another_version_may_have_more_fields_and_fewer(ends):
    parents, workers = ends
    told = {"lists": [*LISTS, "more"], "life_ms": 9000, "redis": {"url": "redis://a", "more": 1}, "more": [1]}
    workers._end.sendall(json.dumps(told).encode() + b"\n")
    assert parents.receive() == [Report(LISTS, 9000, RedisSettings("redis://a"))]


def test_a_full_link_drops_reports_but_no_counts(ends):
    parents, workers = ends
    for _ in range(10_000):
        workers.owns(LISTS, 9000, REDIS)
    workers.count([Series({"class": "A"}, processed=1)], 0, 1)
    assert 0 < len(parents.receive()) < 10_000
    workers.left()
    workers.count([Series({"class": "A"}, processed=2)], 0, 1)
    *_, left, counted = parents.receive()
    assert left.state == LEFT
    assert [series.processed for series in counted.series] == [1, 2]


def test_a_worker_notices_that_its_parent_has_died_and_continues(ends):
    parents, workers = ends
    assert not workers.closed()
    parents.close()
    assert workers.closed()
    workers.owns(LISTS, 9000, REDIS)
    workers.say_ready(1)
    assert workers.closed()


def test_a_forked_child_of_the_worker_does_not_keep_the_link_open(ends):
    parents, workers = ends
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    workers.close()
    wait_for(lambda: parents.receive() or parents.closed)
    os.close(writing)
    os.close(reading)
    os.waitpid(child, 0)


def test_the_parents_end_may_be_left_to_the_next_program(ends):
    parents, workers = ends
    number = parents.bequeath()
    assert os.get_inheritable(number)
    heir = WorkerLink.inherit(os.dup(number))
    assert not os.get_inheritable(heir.fileno())
    workers.owns(LISTS, 9000, REDIS)
    assert len(heir.receive()) == 1
    heir.close()
