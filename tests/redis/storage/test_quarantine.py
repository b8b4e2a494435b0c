"""Putting jobs aside: one script each, compared first, written before removed."""

from __future__ import annotations

import json
from dataclasses import replace

from offsider.storage import quarantine
from offsider.storage.working import Owner, PrivateListEntry

DAY = 86_400


def aside(pool):
    """What is in quarantine: bytes, place, score, reason."""
    found = ((job.raw, json.loads(job.head)) for job in quarantine.page(pool, 0, 100))
    return [(raw, head["where"], head["score"], head["how"]) for raw, head in found]


# ---------------------------------------------------------------------------------- from a run

ENTRY = PrivateListEntry(Owner("host:1:aaaaaaaaaaaa", "default"), "low", b"job")
LIST = "offsider:working:host:1:aaaaaaaaaaaa:default:low"


def test_a_claimed_job_is_quarantined_and_restored_to_its_queue(pool, raw_redis):
    raw_redis.lpush(LIST, "job", "other")
    assert quarantine.put_from_run(pool, ENTRY, days=1, most=9, at=5.5, how="a control")
    assert raw_redis.lrange(LIST, 0, -1) == [b"other"]
    assert aside(pool) == [(b"job", "queue:low", 0.0, "a control")]
    assert not quarantine.put_from_run(pool, ENTRY, days=1, most=9, at=5.5, how="a control"), "it was gone"
    (job,) = quarantine.page(pool, 0, 10)
    assert abs(job.score - raw_redis.time()[0] - DAY) < 5


def test_a_job_in_no_other_place_is_added(pool, raw_redis):
    quarantine.add(pool, b"job\nof two lines", "low", days=1, most=9, at=5.5, how="a control")
    assert aside(pool) == [(b"job\nof two lines", "queue:low", 0.0, "a control")]
    (job,) = quarantine.page(pool, 0, 10)
    assert abs(job.score - raw_redis.time()[0] - DAY) < 5


def test_once_the_quarantine_is_full_more_jobs_of_a_run_are_deleted(pool, raw_redis):
    raw_redis.lpush(LIST, "first", "second")
    assert quarantine.put_from_run(pool, replace(ENTRY, raw=b"first"), days=1, most=1, at=5.5, how="a control")
    assert quarantine.put_from_run(pool, replace(ENTRY, raw=b"second"), days=1, most=1, at=5.5, how="a control")
    quarantine.add(pool, b"third", "low", days=1, most=1, at=5.5, how="a control")
    assert [raw for raw, *_ in aside(pool)] == [b"first"]
    assert raw_redis.llen(LIST) == 0
