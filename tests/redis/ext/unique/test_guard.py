"""A push acquires its lock in the step that stores the job: both or neither, with any client."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.core.errors import InvalidOptions, QueueFull, RedisRefused, RedisUnavailable
from offsider.core.payload import decode, new_jid
from offsider.ext.unique import Locks, Unique
from offsider.ext.unique.guard import STORE
from offsider.fleet.manifest import entry
from tests.faults import FaultProxy
from tests.threads import together

JOB = {"class": "Hard", "args": [1], "unique_for": 60}


def queued(raw_redis, queue="default"):
    return [decode(raw) for raw in raw_redis.lrange(f"queue:{queue}", 0, -1)]


def test_the_same_job_is_stored_once_while_its_lock_is_held(client, config, raw_redis):
    jid = client.push(JOB)
    assert not client.push(JOB)
    (stored,) = queued(raw_redis)
    assert stored["jid"] == jid
    (lock,) = Locks(config)
    assert (lock.jid, lock.job_name, lock.name) == (jid, "Hard", stored["idempotency_key"])
    assert 50 < lock.ttl_seconds <= 60


def test_threads_that_push_the_same_job_at_once_store_one(config, raw_redis):
    barrier, pushed = threading.Barrier(8), []

    def push():
        barrier.wait()
        pushed.append(Client(config).push(JOB))

    together(*[push for _ in range(8)])
    assert len(pushed) == 8
    assert [jid for jid in pushed if jid] == [payload["jid"] for payload in queued(raw_redis)]


def test_a_job_without_the_option_acquires_no_lock(client, raw_redis):
    assert client.push({"class": "Hard", "args": [1]})
    assert client.push({"class": "Hard", "args": [1]})
    assert client.push({**JOB, "unique_for": False})
    assert all("idempotency_key" not in payload for payload in queued(raw_redis))
    assert not raw_redis.exists("offsider:unique")


def test_awaited_pushes_drop_duplicates_as_well(config, client):
    async def twice():
        pusher = Client(config)
        try:
            return [
                await pusher.apush(JOB),
                await pusher.apush(JOB),
                await pusher.apush_bulk({**JOB, "args": [[1], [2]]}),
            ]
        finally:
            pusher.close()

    first, second, bulk = asyncio.run(twice())
    assert first
    assert not second
    assert not bulk[0]
    assert bulk[1]
    assert not client.push(JOB)


def test_a_bulk_push_reports_its_dropped_jobs(client, raw_redis):
    client.push(JOB)
    jids = client.push_bulk({**JOB, "args": [[number % 150] for number in range(300)]})
    assert [bool(jid) for jid in jids] == [number != 1 and number < 150 for number in range(300)]
    assert [payload["args"][0] for payload in reversed(queued(raw_redis))] == [1, 0, *range(2, 150)]
    assert {payload["jid"] for payload in queued(raw_redis)[:-1]} == {jid for jid in jids if jid}


def test_a_scheduled_job_is_locked_for_its_delay_and_the_time_after(client, config, raw_redis):
    jid = client.push({**JOB, "at": timedelta(hours=1)})
    (lock,) = Locks(config)
    assert lock.jid == jid
    assert 3650 < lock.ttl_seconds <= 3661
    assert not client.push(JOB)
    assert not client.push({**JOB, "at": 4_102_444_800})
    assert raw_redis.zcard("schedule") == 1


def test_a_lock_lives_30_days_at_most(client, config):
    with pytest.raises(InvalidOptions, match=r"Hard: unique_for must be .* \(up to 2,592,000\) or a timedelta, got"):
        client.push({**JOB, "unique_for": timedelta(days=31)})
    client.push({**JOB, "at": timedelta(days=90)})
    (lock,) = Locks(config)
    assert lock.ttl_seconds <= 30 * 86_400


def test_gitlabs_strategies_ignore_scheduled_jobs_by_default(client, config):
    later = {"class": "Hard", "args": [1], "unique_until": "until_executed", "at": timedelta(hours=1)}
    assert client.push(later)
    assert client.push(later)
    assert len(Locks(config)) == 0
    asked = {**later, "including_scheduled": True, "unique_for": 30}
    assert client.push(asked)
    assert not client.push(asked)
    assert [3600 < lock.ttl_seconds <= 3631 for lock in Locks(config)] == [True]


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_after_an_ambiguous_failure_the_same_jid_is_stored_once(config, make_config, raw_redis, redis_url, *, fault):
    jid = new_jid()
    Client(config).push({"class": "Warm", "args": [], "unique_for": 1})  # from here on the server knows the script
    with FaultProxy(redis_url) as proxy:
        through = make_config(Unique(), url=proxy.url)
        getattr(proxy, fault)(STORE.sha.encode())
        with pytest.raises(RedisUnavailable) as caught:
            Client(through).push({**JOB, "jid": jid})
        assert caught.value.ambiguous
    assert len(Locks(config)) == (2 if fault == "lose_reply" else 1)
    assert Client(config).push({**JOB, "jid": jid}) == jid
    assert [payload["jid"] for payload in queued(raw_redis) if payload["class"] == "Hard"] == [jid]


def test_a_push_that_the_server_refuses_leaves_no_lock(client, config, raw_redis):
    raw_redis.set("queue:odd", "no list")
    with pytest.raises(RedisRefused):
        client.push({**JOB, "queue": "odd"})
    assert len(Locks(config)) == 0
    raw_redis.delete("queue:odd")
    assert client.push({**JOB, "queue": "odd"})


def test_a_push_without_memory_leaves_no_lock(make_server, make_config):
    config = make_config(Unique(), url=make_server().url)
    client = Client(config)
    client.push({**JOB, "args": [0]})
    client.redis.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(QueueFull):
        client.push(JOB)
    assert [lock.job_name for lock in Locks(config)] == ["Hard"]
    assert Locks(config).locked("Hard", 1) is False


def test_a_duplicate_leaves_a_line_on_the_pushing_side(client, caplog):
    with caplog.at_level(logging.INFO, logger="offsider"):
        jid = client.push(JOB)
        client.push({**JOB, "tags": ["red"]})
    (record,) = [record for record in caplog.records if record.fields.get("job_status") == "deduplicated"]
    fields = record.fields
    assert fields["duplicate-of"] == jid
    assert fields["jid"] != jid
    assert (fields["class"], fields["queue"], fields["tags"]) == ("Hard", "default", ["red"])
    assert len(fields["idempotency_key"]) == 64


def test_a_broken_log_handler_is_reported_and_the_push_succeeds(client, config):
    errors = []
    config.error_handlers.append(lambda error, _context: errors.append(error))

    class Broken(logging.Filter):
        def filter(self, record):
            raise ValueError("broken filter")

    broken = Broken()
    logger = logging.getLogger("offsider")
    level = logger.level
    logger.addFilter(broken)
    logger.setLevel(logging.INFO)
    try:
        client.push(JOB)
        assert not client.push(JOB)
    finally:
        logger.removeFilter(broken)
        logger.setLevel(level)
    assert "broken filter" in str(errors[0])


def test_invalid_options_of_a_push_by_name_are_refused(client):
    with pytest.raises(InvalidOptions, match=r"Hard: unique_for .*got 'soon'"):
        client.push({**JOB, "unique_for": "soon"})
    with pytest.raises(InvalidOptions, match="until_tomorrow"):
        client.push({"class": "Hard", "args": [], "unique_until": "until_tomorrow"})


@pytest.mark.parametrize("jid", ["a b", "a\nb", " "])
def test_a_jid_with_spaces_is_refused(client, jid):
    with pytest.raises(InvalidOptions, match="without spaces"):
        client.push({**JOB, "jid": jid})


def test_a_moved_job_is_never_its_own_duplicate(client, config, raw_redis):
    jid = client.push(JOB)
    (payload,) = queued(raw_redis)
    for reason in ("schedule", "retry"):
        prepared = client.reenqueue(payload, reason)
        assert prepared is not None
        assert not prepared.guarded
        assert prepared.jid == jid


# ------------------------------------------------------------------------------ idempotent jobs


@pytest.fixture
def refresh(declared):
    @job(name="Refresh", idempotent=True)
    def refresh(account_id: int) -> None: ...

    return refresh


def test_an_idempotent_job_is_deduplicated_until_it_begins(client, refresh, raw_redis):
    assert client.push({"class": refresh, "args": [1]})
    assert not client.push({"class": refresh, "args": [1]})
    assert client.push({"class": refresh, "args": [2]})
    assert {payload["unique_until"] for payload in queued(raw_redis)} == {"until_executing"}
    assert client.push_bulk({"class": refresh, "args": [[2], [3], [3]]})[0::2] == ["", ""]


@pytest.mark.parametrize("options", [{"unique_until": "none"}, {"unique_for": False}], ids=str)
def test_an_idempotent_job_may_be_pushed_without_a_lock(client, refresh, options):
    for _ in range(2):
        assert client.push({"class": refresh, "args": [1], **options})
        assert client.push_bulk({"class": refresh, "args": [[1]], **options}) != [""]


def test_the_manifest_has_the_effective_option(config, refresh):
    reported = entry(refresh.declared, config)
    assert (reported["idempotent"], reported["unique_until"]) == (True, "until_executing")
    assert "unique_until" not in entry(refresh.declared, Config())
