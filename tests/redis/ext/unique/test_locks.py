"""Locks as operators see them: from Python, on the command line and in the doctor."""

from __future__ import annotations

import time

import pytest
from click.testing import CliRunner

from offsider import job
from offsider.cli.main import main
from offsider.client import via
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, InvalidArguments
from offsider.ext.unique import Locks, locks
from offsider.inspector import Queue, ScheduledSet
from offsider.inspector.finding import Severity
from offsider.inspector.findings.examination import examine
from offsider.storage import owners, working
from offsider.storage.owners import Lists
from offsider.storage.working import Owner
from tests.waiting import wait_for


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


def test_an_expired_lock_is_not_listed_and_the_next_push_removes_its_name(client, config, raw_redis):
    client.push({"class": "Hard", "args": [1], "unique_for": 0.2})
    wait_for(lambda: len(Locks(config)) == 0)
    assert raw_redis.zcard("offsider:unique") == 1
    assert [*Locks(config)] == []
    client.push({"class": "Hard", "args": [2], "unique_for": 60})
    assert raw_redis.zcard("offsider:unique") == 1


def test_a_lock_that_another_program_has_spoilt_has_no_holder(config, raw_redis):
    raw_redis.set("offsider:unique:odd", "who knows")
    raw_redis.zadd("offsider:unique", {"odd": 4e12})
    assert [*Locks(config)] == []
    assert not Locks(config).release("odd")


def test_each_lock_is_listed_once(client, config):
    client.push_bulk({"class": "Hard", "args": [[number] for number in range(300)], "unique_for": 60})
    names = [lock.name for lock in Locks(config)]
    assert len(names) == len(set(names)) == 300


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


def test_without_the_extension_a_job_has_no_lock(make_config):
    with pytest.raises(ConfigurationError, match=r"config.use\(Unique\(\)\)"):
        Locks(make_config()).locked("Hard", 1)


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


# ------------------------------------------------------------------------------ locks without a job

OWNER = Owner("h:1:0123456789ab", "c")


@pytest.fixture
def old(client, config, redis, monkeypatch):
    """The jid of a job whose lock is old."""
    monkeypatch.setattr(locks, "SEARCH_MS", 10_000.0)
    jid = client.push({"class": "Refresh", "args": [1], "unique_for": 3600})
    (lock,) = Locks(config)
    value = locks.value_of(jid, "Refresh", int((lock.taken_at - locks.OLD_SECONDS - 1) * 1000))
    redis.call("SET", locks.lock_key(redis.keys, lock.name), value, "KEEPTTL")
    return jid


def check(config):
    return [finding for finding in examine(config) if finding.name == "unique"]


def test_the_doctor_finds_an_old_lock_without_a_job_and_its_fix_releases_it(config, old, raw_redis, redis_url):
    raw_redis.delete("queue:default")
    (finding,) = check(config)
    assert (finding.subject, finding.since) == (old, pytest.approx(time.time() - locks.OLD_SECONDS, abs=60))
    assert (finding.severity, finding.actions[0]) == (Severity.WARN, f"offsider locks release {old}")
    assert f"job {old} (Refresh) holds a lock" in finding.what
    command, environment = finding.actions[0].split()[1:], {"OFFSIDER_REDIS_URL": redis_url}
    assert CliRunner().invoke(main, [*command, "--yes"], env=environment).output == f"Released: Refresh {old}\n"
    assert len(Locks(config)) == 0
    again = CliRunner().invoke(main, command, env=environment)
    assert again.exit_code == 1
    assert f"there is no lock of {old}" in again.output
    assert check(config) == []


@pytest.mark.parametrize("place", ["queue", "private list", "schedule"])
def test_the_doctor_finds_the_job_of_an_old_lock(config, old, redis, raw_redis, place):
    if place == "private list":
        owners.beat(redis, Lists(OWNER.identity, {OWNER.capsule: ("default",)}), 60_000)
        assert working.claim(redis, OWNER, ["default"], 1)
    elif place == "schedule":
        raw_redis.zadd("schedule", {raw_redis.rpop("queue:default"): 4e9})
    assert check(config) == []


def test_a_check_refused_by_the_server_does_not_hide_others(config, raw_redis):
    raw_redis.set("offsider:unique", "no set")
    assert {finding.name: finding.severity for finding in examine(config)} == {
        "unique": Severity.WARN,
        "workers": Severity.WARN,
    }
