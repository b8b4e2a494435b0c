from __future__ import annotations

import math

import pytest

from offsider import job
from offsider.testing import enqueued_job as wording, fake
from offsider.testing.enqueued_job import EnqueuedJob


def test_it_shows_itself_as_a_call():
    @job(name="remind")
    def remind(user_id: int) -> None: ...

    with fake() as enqueued:
        remind.enqueue(42)
        remind.enqueue_at(2e9, 42)
    now, later = enqueued.jobs
    assert repr(now) == "<remind(42) in queue default>"
    assert str(later).startswith("remind(42) in queue default, due at 2033-05-18 03:33:20 UTC (in ")


@pytest.mark.parametrize("created_at, delay", [({"created_at": 2e9 - 5}, 5.0), ({}, 0.0)])
def test_the_delay_counts_from_the_push(created_at, delay):
    kept = EnqueuedJob({"class": "X", "args": [], **created_at}, "default", 2e9, b"")
    assert kept.delay_seconds == delay
    assert not kept.is_due(2e9 - 1)
    assert kept.is_due(2e9)


def test_compressed_arguments_are_shown_and_run_plain(config):
    config.client.large_payloads = "compress"
    ran = []

    @job(name="export")
    def export(text: str, *, unit: str) -> None:
        ran.append((text, unit))

    with fake(config=config) as enqueued:
        export.enqueue("x" * 200_000, unit="m")
        (pushed,) = enqueued.jobs
        assert len(pushed.raw) < 2_000
        assert (pushed.args, pushed.kwargs) == (["x" * 200_000], {"unit": "m"})
        assert enqueued.drain() == 1
    export.run_inline("y" * 200_000, unit="m")
    assert ran == [("x" * 200_000, "m"), ("y" * 200_000, "m")]


def test_a_long_value_loses_its_middle():
    assert wording.shown_value("abc") == "'abc'"
    shortened = wording.shown_value("a" * 60 + "b" * 60)
    assert shortened == "'" + "a" * 47 + "..." + "b" * 47 + "'"
    assert len(shortened) <= wording.MAX_VALUE_LETTERS


def test_a_time_is_shown_in_utc_or_as_a_number():
    assert wording.shown_moment(0) == "at 1970-01-01 00:00:00 UTC"
    assert wording.shown_moment(1e18) == "at 1e+18"
    assert wording.shown_moment(math.inf) == "at inf"
