"""A filter over a set that is too large for one look."""

from __future__ import annotations

import json

import pytest

from offsider.cli.top import filter as module
from offsider.cli.top.filter import Filter
from offsider.config.config import Config
from offsider.inspector import RetrySet


@pytest.fixture
def jobs(redis_url, raw_redis):
    raw_redis.zadd("retry", {job(number): number for number in range(20_000)})
    config = Config()
    config.redis.url = redis_url
    return RetrySet(config)


def job(number: int) -> str:
    return json.dumps({"class": f"Job{number}", "args": [], "queue": "default", "jid": f"{number:024}"})


def names(found) -> list[str]:
    return [entry.name for entry in found.entries]


def test_each_scan_resumes_where_the_previous_one_stopped(jobs, monkeypatch):
    monkeypatch.setattr(module, "BUDGET_MS", 5)
    filtered = Filter(jobs, '"Job1999')
    scans = [filtered.scan()]
    while scans[-1].note:
        assert " of 20,000" in scans[-1].note
        scans.append(filtered.scan())
    assert len(scans) > 1
    assert names(scans[-1]) == ["Job1999", *(f"Job1999{n}" for n in range(10))]


def test_a_finished_scan_is_shown_while_the_next_one_runs(jobs, raw_redis, monkeypatch):
    filtered = Filter(jobs, '"Job1999')
    whole = filtered.scan()
    assert (len(whole.entries), whole.note) == (11, "")
    monkeypatch.setattr(module, "BUDGET_MS", 0)
    assert names(filtered.scan()) == names(whole)
    raw_redis.zrem("retry", job(1999))
    assert [filtered.still_there(entry) for entry in whole.entries] == [False] + [True] * 10


def test_very_many_matches_are_cut(jobs, monkeypatch):
    monkeypatch.setattr(module, "MOST", 100)
    found = Filter(jobs, "Job").scan()
    assert 100 <= len(found.entries) < 20_000
    assert found.note == f"the first {len(found.entries):,}"
