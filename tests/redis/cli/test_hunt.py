"""A filter over a set that is too large for one look."""

from __future__ import annotations

import json

import pytest

from offsider.cli.top import hunt
from offsider.cli.top.hunt import Hunt
from offsider.inspector import RetrySet
from offsider.wiring.config import Config


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


def test_each_look_goes_on_where_the_one_before_stopped(jobs, monkeypatch):
    monkeypatch.setattr(hunt, "LOOK_MS", 5)
    filtered = Hunt(jobs, '"Job1999')
    looks = [filtered.look()]
    while looks[-1].note:
        assert " of 20,000" in looks[-1].note
        looks.append(filtered.look())
    assert len(looks) > 1
    assert names(looks[-1]) == ["Job1999", *(f"Job1999{n}" for n in range(10))]


def test_a_finished_scan_is_shown_while_the_next_one_runs(jobs, raw_redis, monkeypatch):
    filtered = Hunt(jobs, '"Job1999')
    whole = filtered.look()
    assert (len(whole.entries), whole.note) == (11, "")
    monkeypatch.setattr(hunt, "LOOK_MS", 0)
    assert names(filtered.look()) == names(whole)
    raw_redis.zrem("retry", job(1999))
    assert [filtered.still_there(entry) for entry in whole.entries] == [False] + [True] * 10


def test_very_many_matches_are_cut(jobs, monkeypatch):
    monkeypatch.setattr(hunt, "MOST", 100)
    found = Hunt(jobs, "Job").look()
    assert 100 <= len(found.entries) < 20_000
    assert found.note == f"the first {len(found.entries):,}"
