"""A sample of a queue, counted."""

from __future__ import annotations

from offsider.inspector import Callers, JobRecord, queue
from offsider.inspector.queue import count_callers


def job(name: str, caller: str = "") -> JobRecord:
    stamp = b',"meta.caller_id":"%s"' % caller.encode() if caller else b""
    return JobRecord(b'{"class":"%s","args":[]%s}' % (name.encode(), stamp))


def test_the_biggest_callers_are_first_and_unknown_ones_are_grouped():
    jobs = [job("A", "web/orders"), job("B", "web/orders"), job("B"), job("B", "nightly"), JobRecord(b"no job")]
    assert count_callers([jobs[:2], jobs[2:]], 1_000) == Callers(
        5, 1_000, {"web/orders": 2, "": 2, "nightly": 1}, {"B": 3, "A": 1, "": 1}
    )


def test_an_empty_queue_has_no_callers():
    assert count_callers([], 0) == Callers(0, 0, {}, {})


def test_jobs_added_during_sampling_count_in_the_total():
    assert count_callers([[job("A"), job("A")]], 1).total == 2


def test_a_slow_sample_ends_early(monkeypatch):
    monkeypatch.setattr(queue, "_SAMPLE_SECONDS", -1)
    assert count_callers([[job("A")], [job("B")]], 2) == Callers(1, 2, {"": 1}, {"A": 1})
