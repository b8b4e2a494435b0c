"""Next to Ruby's Sidekiq, pages mention the data they do not have about it."""

from __future__ import annotations

import json

import pytest

from offsider import __version__
from offsider.config.installation import Installation
from offsider.screens.counters import ruby_processes
from tests.redis.web.stored import WHEN, failed, jid

NOT_COUNTED = b"Errors of Sidekiq&#39;s Ruby processes are not counted here"
NOT_NOTED = b"Ruby processes do not record attempts."


@pytest.fixture
def process(raw_redis):
    """process(version): a running Sidekiq process; None reports no version."""

    def register(version):
        identity = f"host:1:{version}"
        info = {"hostname": "host", "pid": 1, "concurrency": 5, "queues": ["mail"], "identity": identity}
        info |= {} if version is None else {"version": version}
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping={"info": json.dumps(info), "busy": 0, "beat": WHEN, "quiet": "false"})

    return register


@pytest.mark.parametrize("version,count", [("8.0.7", 1), ("7.3.0", 1), (None, 1), (__version__, 0), ("٣", 0), ("x", 0)])
def test_ruby_processes_are_detected_by_version(config, process, version, count):
    process(version)
    assert ruby_processes(Installation.of(config)) == count


def test_the_error_page_notes_that_ruby_failures_are_not_counted(ask, process):
    assert NOT_COUNTED not in ask("/error").body
    process(__version__)
    assert NOT_COUNTED not in ask("/error").body
    process("8.0.7")
    assert NOT_COUNTED in ask("/error").body


def test_the_job_page_notes_that_ruby_records_no_attempts(ask, raw_redis, process):
    raw_redis.zadd("dead", {failed(1): WHEN})
    path = f"/job/dead/{WHEN}~7c{jid(1)}"
    assert NOT_NOTED not in ask(path).body
    process("8.0.7")
    assert NOT_NOTED in ask(path).body
