"""The extension as a whole: its installation, and its guarantees after any sequence of events."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.payload import decode
from offsider.ext.unique import Locks, Unique
from tests.docs.snippets import ROOT


@pytest.mark.parametrize("ttl", [0, "600", timedelta(days=31)])
def test_invalid_durations_are_refused(ttl):
    with pytest.raises(ConfigurationError, match="ttl"):
        Unique(ttl=ttl)


def test_two_guards_exclude_each_other():
    config = Config()
    config.use(Unique())
    other = Config()
    other.push_guard = config.push_guard
    with pytest.raises(ConfigurationError, match="push_guard"):
        other.use(Unique())


def test_a_declared_option_is_checked_when_the_job_is_first_pushed(client, declared):
    @job(name="Bad", unique_for=-1)
    def bad() -> None: ...

    with pytest.raises(InvalidOptions, match="Bad: unique_for"):
        bad.via(client).enqueue()


def test_a_push_can_go_without_the_lock(client, declared):
    @job(name="Unique", unique_for=60)
    def unique(number: int) -> None: ...

    pushing = unique.via(client)
    assert pushing.enqueue(1)
    assert not pushing.enqueue(1)
    assert pushing.using(unique_for=False).enqueue(1)
    assert not pushing.enqueue_many([[1], [2]])[0]


def test_the_extensions_ttl_is_the_default(make_config):
    config = make_config(Unique(ttl=timedelta(minutes=1), across_queues=True))
    client = Client(config)
    assert client.push({"class": "A", "args": [], "unique_until": "until_executed", "queue": "a"})
    assert not client.push({"class": "A", "args": [], "unique_until": "until_executed", "queue": "b"})
    assert [0 < lock.ttl_seconds <= 60 for lock in Locks(config)] == [True]


def test_the_payload_has_the_same_keys_as_in_ruby(client, raw_redis):
    client.push({"class": "A", "args": [], "unique_for": 60, "unique_until": "start"})
    (raw,) = raw_redis.lrange("queue:default", 0, -1)
    payload = decode(raw)
    assert (payload["unique_for"], payload["unique_until"]) == (60, "start")


def test_the_acl_line_of_the_deployment_page_is_enough(make_config, raw_redis):
    name, rules = re.search(r"^user (\S+) (.+)$", (ROOT / "docs" / "deployment.md").read_text(), re.MULTILINE).groups()
    raw_redis.execute_command("ACL", "SETUSER", name, *rules.split())
    config = make_config(Unique())
    config.redis.username = name
    config.redis.password = re.search(r">(\S+)", rules)[1]
    errors = []
    config.error_handlers.append(lambda error, _context: errors.append(error))
    try:
        Client(config).push({"class": "A", "args": [], "unique_for": 60})
        Client(config).push({"class": "A", "args": [], "unique_for": 60})
        (lock,) = Locks(config)
        assert lock.release()
    finally:
        Installation.of(config).close()
        raw_redis.execute_command("ACL", "DELUSER", name)
    assert errors == []
