"""The last failed attempts of a job, as they are read."""

from __future__ import annotations

import json

from offsider.config.installation import Installation
from offsider.inspector import Attempt, Attempts, RetrySet
from offsider.storage import attempts, job_sets

TOLD = {"number": 1, "at": 5.0, "host": "h:1", "error_class": "E", "error_message": "m", "duration": 0.5}


def test_attempts_are_read_newest_first_and_invalid_ones_are_omitted(config):
    stored = [json.dumps(TOLD), json.dumps({**TOLD, "number": 2}), "[]", "{", json.dumps({**TOLD, "at": "x"})]
    attempts.add(Installation.of(config).redis, [("a", raw.encode(), 60.0) for raw in stored], 1.8e9)
    assert Attempts.of("a", config) == [
        Attempt(2, 5.0, "h:1", "E", "m", 0.5),
        Attempt(1, 5.0, "h:1", "E", "m", 0.5),
    ]


def test_a_job_that_never_failed_has_none(config):
    assert Attempts.of("nobody", config) == []


def test_attempts_are_deleted_with_their_job(config):
    redis = Installation.of(config).redis
    job_sets.add(redis, redis.keys.retry, b'{"class":"A","args":[],"jid":"a"}', 1.0)
    attempts.add(redis, [("a", json.dumps(TOLD).encode(), 60.0)], 1.8e9)
    (entry,) = RetrySet(config)
    assert entry.delete()
    assert Attempts.of("a", config) == []
