"""Looking at locks and freeing them from Python."""

from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.client import via
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, InvalidArguments
from offsider.ext.unique import Locks
from offsider.inspector import Queue, ScheduledSet


def test_locks_have_the_data_of_their_jobs(client, config):
    jid = client.push({"class": "Hard", "args": [1], "unique_for": 60})
    locks = Locks(config)
    assert len(locks) == 1
    (lock,) = locks
    assert (lock.jid, lock.job_name, lock.runs_again) == (jid, "Hard", False)
    assert 0 <= lock.age_seconds < 60
    assert 0 < lock.ttl_seconds <= 60
    found = locks.find(lock.name)
    assert found is not None
    assert (found.jid, found.taken_at) == (jid, lock.taken_at)
    assert locks.find("other") is None
    assert "_redis" not in repr(lock)


def test_each_lock_is_listed_once(client, config):
    client.push_bulk({"class": "Hard", "args": [[number] for number in range(700)], "unique_for": 60})
    names = [lock.name for lock in Locks(config)]
    assert len(names) == len(set(names)) == 700


def test_a_lock_is_found_by_the_job_and_its_arguments(client, config, declared):
    @job(name="Refresh", queue="low", unique_for=60)
    def refresh(account_id: int, *, force: bool = False) -> None: ...

    refresh.via(client).enqueue(7)
    locks = Locks(config)
    assert locks.locked(refresh, 7)
    assert not locks.locked(refresh, 8)
    assert not locks.locked(refresh, 7, force=True)
    found = locks.of(refresh, account_id=7)
    assert found is not None
    assert found.release()
    assert not found.release()
    assert not locks.locked(refresh, 7)
    with pytest.raises(InvalidArguments):
        locks.locked(refresh, "a", "b")


def test_the_queue_that_a_rule_chooses_counts(client, config):
    config.queue_resolver = lambda push: "chosen"
    client.push({"class": "Hard", "args": [1], "unique_for": 60})
    assert Locks(config).locked("Hard", 1)
    config.queue_resolver = lambda push: None
    assert not Locks(config).locked("Hard", 1)


def test_a_lock_is_freed_by_its_name(client, config):
    client.push({"class": "Hard", "args": [1], "unique_for": 60})
    (lock,) = Locks(config)
    assert Locks(config).release(lock.name)
    assert not Locks(config).release(lock.name)
    assert client.push({"class": "Hard", "args": [1], "unique_for": 60})


def test_reap_frees_locks_without_a_job(client, config, raw_redis):
    client.push({"class": "Hard", "args": [1], "unique_for": 60})
    assert Locks(config).reap() == 0
    raw_redis.delete("queue:default")
    assert Locks(config).reap() == 1


def test_without_the_extension_a_job_has_no_lock(redis_url):
    config = Config()
    config.redis.url = redis_url
    with pytest.raises(ConfigurationError, match=r"config.use\(Unique\(\)\)"):
        Locks(config).locked("Hard", 1)
    Installation.of(config).close()


def test_the_lock_of_a_job_is_on_its_destination_server(client, config, other_url):
    config.add_server("bulk", url=other_url)
    with via("bulk"):
        client.push({"class": "Refresh", "args": [1], "unique_for": 60})
        assert Locks(config).locked("Refresh", 1)
    assert not Locks(config).locked("Refresh", 1)
    assert (len(Locks(config)), len(Locks(Installation.of(config, "bulk")))) == (0, 1)


def test_deleting_a_job_on_another_server_frees_its_lock_there(client, config, other_url):
    config.add_server("bulk", url=other_url)
    bulk = Installation.of(config, "bulk")
    push = {"class": "Refresh", "args": [1], "unique_for": 60, "server": "bulk"}
    assert client.push(push)
    assert Queue("default", bulk).clear() == 1
    assert client.push({**push, "at": 4_102_444_801})
    assert ScheduledSet(bulk).clear() == 1
    assert client.push(push)
    assert not client.push(push)
