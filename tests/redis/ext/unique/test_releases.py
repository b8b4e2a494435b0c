"""Locks of jobs that are done are freed: at once without a worker, else by its thread; an outage puts it off."""

from __future__ import annotations

import logging

import pytest

from offsider import Config, job
from offsider.core.compression import decode_plain
from offsider.core.payload import decode
from offsider.ext.unique import Locks, Unique
from offsider.ext.unique.releases import Release, Releases, release_of as release_on
from offsider.ext.unique.store import STORE
from offsider.jobs import registry
from tests.databases import at_database
from tests.faults import FaultProxy
from tests.waiting import wait_for

JOB = {"class": "Hard", "args": [1], "unique_for": 60}
AGAIN = {
    "class": "Hard",
    "args": [1],
    "tags": ["red"],
    "deduplicate": {"strategy": "until_executed", "if_deduplicated": "reschedule_once"},
}


def release_of(payload, *, succeeded=False):
    return release_on(payload, "main", succeeded=succeeded)


def only_job(raw_redis):
    (raw,) = raw_redis.lrange("queue:default", 0, -1)
    return decode(raw)


def test_without_a_worker_a_lock_is_freed_at_once(config, client, raw_redis):
    client.push(JOB)
    Releases(config).add(release_of(only_job(raw_redis)))
    assert len(Locks(config)) == 0


def test_a_job_without_a_lock_frees_nothing(config, client):
    client.push(JOB)
    for payload in [{}, {"jid": "j1"}, {"idempotency_key": "k"}, {"idempotency_key": 3, "jid": "j1"}]:
        assert release_of(payload) is None
    Releases(config).add(None)
    assert len(Locks(config)) == 1


def test_in_a_worker_its_thread_frees_and_leaves_nothing_at_the_end(config, client, raw_redis):
    client.push(JOB)
    releases = Releases(config)
    service = releases.service(config)
    service.start()
    assert service.wait_for_tick(1, 20)
    releases.add(release_of(only_job(raw_redis)))
    wait_for(lambda: len(Locks(config)) == 0)
    service.stop()
    assert service.join(20)


def test_what_waits_at_the_end_of_a_worker_is_still_freed(config, client, raw_redis):
    client.push(JOB)
    releases = Releases(config)
    service = releases.service(config)
    releases._waiting.append(release_of(only_job(raw_redis)))
    service.stop()
    assert service.join(1)
    assert len(Locks(config)) == 0


def test_an_outage_is_reported_and_the_release_waits_for_its_end(redis_url, client, config, raw_redis):
    errors = []
    client.push(JOB)
    with FaultProxy(redis_url) as proxy:
        through = Config()
        through.redis.url = proxy.url
        through.error_handlers.append(lambda error, context: errors.append(context))
        releases = Releases(through)
        proxy.refuse()
        releases.add(release_of(only_job(raw_redis)))
        assert [context["context"] for context in errors] == ["freeing the lock of a unique job"]
        assert releases.tick() == 1.0
        assert len(Locks(config)) == 1
        proxy.accept()
        assert releases.tick() == 60.0
        through.close()
    assert len(Locks(config)) == 0


def test_a_job_whose_duplicates_were_dropped_runs_once_more(config, client, raw_redis, caplog):
    first = client.push(AGAIN)
    assert client.push(AGAIN) is None
    payload = decode(raw_redis.rpop("queue:default"))
    with caplog.at_level(logging.INFO, logger="offsider"):
        Releases(config).add(release_of({**payload, "retry_count": 3, "error_class": "X"}, succeeded=True))
    again = only_job(raw_redis)
    assert again["rescheduled_once"] == first
    assert again["jid"] != first
    assert (again["class"], again["args"], again["tags"]) == ("Hard", [1], ["red"])
    assert "retry_count" not in again
    assert "error_class" not in again
    (lock,) = Locks(config)
    assert (lock.jid, lock.runs_again) == (again["jid"], False)
    (line,) = [record for record in caplog.records if record.fields.get("job_status") == "rescheduled"]
    assert line.fields["jid"] == again["jid"]


def test_without_duplicates_it_does_not(config, client, raw_redis):
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    Releases(config).add(release_of(payload, succeeded=True))
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_a_job_that_did_not_succeed_does_not_run_once_more(config, client, raw_redis):
    client.push(AGAIN)
    client.push(AGAIN)
    Releases(config).add(release_of(decode(raw_redis.rpop("queue:default"))))
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_the_second_run_is_the_last(config, client, raw_redis):
    client.push(AGAIN)
    client.push(AGAIN)
    releases = Releases(config)
    releases.add(release_of(decode(raw_redis.rpop("queue:default")), succeeded=True))
    assert client.push(AGAIN) is None
    releases.add(release_of(decode(raw_redis.rpop("queue:default")), succeeded=True))
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_middleware_that_raises_at_the_second_push_does_not_keep_the_lock(config, client, raw_redis):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(error))
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))

    def breaks(push, call_next):
        raise LookupError("broken middleware")

    config.client_middleware.add(breaks)
    Releases(config).add(release_of(payload, succeeded=True))
    assert [str(error) for error in errors] == ["broken middleware"]
    assert len(Locks(config)) == 0


def test_middleware_that_stops_the_second_push_does_not_keep_the_lock(config, client, raw_redis):
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    config.client_middleware.add(lambda push, call_next: None)
    Releases(config).add(release_of(payload, succeeded=True))
    assert len(Locks(config)) == 0
    assert raw_redis.llen("queue:default") == 0


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_a_second_push_of_which_nobody_knows_is_made_once(redis_url, client, raw_redis, fault):
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    with FaultProxy(redis_url) as proxy:
        through = Config()
        through.redis.url = proxy.url
        through.use(Unique())
        releases = Releases(through)
        getattr(proxy, fault)(STORE.sha.encode())
        releases.add(release_of(payload, succeeded=True))
        assert releases.flush()
        through.close()
    assert only_job(raw_redis)["rescheduled_once"] == payload["jid"]


def test_a_release_says_whose_lock_it_frees():
    release = release_of({"idempotency_key": "k", "jid": "j1", "class": "Hard", "args": []}, succeeded=True)
    assert release == Release("k", "j1", "main", None)


def test_a_large_job_that_runs_once_more_is_compressed_again(config, client, raw_redis):
    config.client.large_payloads = "compress"
    config.client.payload_limit_bytes = 100_000
    with registry.isolated():

        @job(name="Export", deduplicate=AGAIN["deduplicate"])
        def export(text: str) -> None: ...

        first = client.push({"class": export, "args": ["x" * 200_000]})
        assert client.push({"class": export, "args": ["x" * 200_000]}) is None
        (raw,) = raw_redis.lrange("queue:default", 0, -1)
        raw_redis.delete("queue:default")
        Releases(config).add(release_of(decode_plain(raw), succeeded=True))
    again = only_job(raw_redis)
    assert again["compressed"] is True
    assert again["jid"] != first


def test_a_job_of_another_server_runs_once_more_there(client, config, redis_url, raw_redis):
    config.add_server("bulk", url=at_database(redis_url, 3))
    jid = client.push({**AGAIN, "server": "bulk"})
    assert not client.push({**AGAIN, "server": "bulk"})
    bulk = config.redis_of("bulk")
    payload = decode(bulk.call("RPOP", "queue:default"))
    Releases(config).add(release_on(payload, "bulk", succeeded=True))
    again = decode(bulk.call("RPOP", "queue:default"))
    assert (again["rescheduled_once"], raw_redis.llen("queue:default")) == (jid, 0)
    assert len(Locks(config.for_server("bulk"))) == 1
