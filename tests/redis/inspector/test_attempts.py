"""The last failed attempts of a job, as they are read."""

from __future__ import annotations

import json

from offsider.config.installation import Installation
from offsider.core.error_text import Frame
from offsider.inspector import Attempt, Attempts, LogLine, RetrySet
from offsider.storage import attempts, job_sets
from offsider.storage.attempts import MAX_LOG_CHARACTERS, MAX_LOGS, NewAttempt

TOLD = {"number": 1, "at": 5.0, "host": "h:1", "error_class": "E", "error_message": "m", "duration": 0.5}


def add(config, *told, lines=()):
    redis = Installation.of(config).redis
    attempts.add(redis, [NewAttempt("a", one["at"], json.dumps(one).encode(), 60.0, lines) for one in told], 1.8e9)


def test_attempts_are_read_newest_first_and_invalid_ones_are_omitted(config, raw_redis):
    frame = {"release": "v1", "frame": ["mail.py", "send", 7]}
    add(config, TOLD, {**TOLD, "number": 2, **frame})
    raw_redis.lpush("offsider:attempts:a", "[]", "{", json.dumps({**TOLD, "at": "x"}))
    assert Attempts.of("a", config) == [
        Attempt(2, 5.0, "h:1", "E", "m", 0.5, "v1", Frame("mail.py", "send", 7)),
        Attempt(1, 5.0, "h:1", "E", "m", 0.5),
    ]


def test_the_last_attempts_have_their_last_log_lines(config, raw_redis):
    for number in range(5):
        lines = [LogLine(number + 0.5, "INFO", "x" * 199), LogLine(number + 0.75, "WARN", f"line {number}")]
        add(config, {**TOLD, "number": number, "at": float(number)}, lines=lines)
    raw_redis.lset("offsider:attempts:a:log", 1, "[3.0, 7]")
    logs = [attempt.log for attempt in Attempts.of("a", config)]
    expected = [[LogLine(at + 0.5, "INFO", "x" * 199), LogLine(at + 0.75, "WARN", f"line {at}")] for at in (4, 2)]
    assert logs == [expected[0], (), expected[1], (), ()]
    assert raw_redis.llen("offsider:attempts:a:log") == MAX_LOGS
    assert 0 < raw_redis.ttl("offsider:attempts:a:log") <= 60


def test_the_lines_of_an_attempt_are_bounded(config):
    add(config, TOLD, lines=[LogLine(float(at), "INFO", "x" * 150) for at in range(20)])
    (attempt,) = Attempts.of("a", config)
    assert [line.at for line in attempt.log] == [float(at) for at in range(20 - MAX_LOG_CHARACTERS // 150, 20)]


def test_a_job_that_never_failed_has_none(config):
    assert Attempts.of("nobody", config) == []


def test_attempts_are_deleted_with_their_job(config, raw_redis):
    redis = Installation.of(config).redis
    job_sets.add(redis, redis.keys.retry, b'{"class":"A","args":[],"jid":"a"}', 1.0)
    add(config, TOLD, lines=[LogLine(1.0, "INFO", "text")])
    (entry,) = RetrySet(config)
    assert entry.delete()
    assert Attempts.of("a", config) == []
    assert raw_redis.keys("offsider:attempts:*") == []
