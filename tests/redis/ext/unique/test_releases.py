"""Locks of jobs that are done are freed, and a job whose duplicates were dropped runs once more."""

from __future__ import annotations

import logging
import threading

import pytest

from offsider import Config, job
from offsider.config.installation import Installation
from offsider.core.compression import decode_plain
from offsider.core.outcome import Failed, Succeeded
from offsider.core.payload import decode
from offsider.ext.unique import Locks, Unique, releases, store
from offsider.ext.unique.releases import Releases, held_by
from offsider.ext.unique.store import STORE
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.storage.effects import run_alone
from offsider.testing import RunningWorker
from tests.faults import FaultProxy
from tests.middleware import raising, returning
from tests.waiting import wait_for

JOB = {"class": "Hard", "args": [1], "unique_for": 60}
AGAIN = {
    "class": "Hard",
    "args": [1],
    "tags": ["red"],
    "unique_until": "until_executed",
    "reschedule_once": True,
}


def end(config, payload, *, outcome=None, stopping=False, lost=False):
    """The end of a run: its effect, and the events it emits."""
    run = JobContext(payload, payload["queue"], is_stopping=lambda: stopping)
    effect = Releases(Installation.of(config)).effect(run, *held_by(payload))
    (reply,) = run_alone(Installation.of(config).redis, effect.applied(outcome or Succeeded(), "gone"))
    if effect.done is not None:
        effect.done(None if lost else reply, outcome or Succeeded())


def only_job(raw_redis):
    (raw,) = raw_redis.lrange("queue:default", 0, -1)
    return decode(raw)


def test_the_lock_of_a_job_without_an_outcome_is_freed(config, client, raw_redis):
    client.push(JOB)
    Releases(Installation.of(config)).free(only_job(raw_redis), "main")
    assert len(Locks(config)) == 0


def test_a_job_without_a_lock_frees_nothing(config, client):
    client.push(JOB)
    for payload in [{}, {"jid": "j1"}, {"idempotency_key": "k"}, {"idempotency_key": 3, "jid": "j1"}]:
        assert held_by(payload) is None
        Releases(Installation.of(config)).free(payload, "main")
    assert len(Locks(config)) == 1


def test_the_outcome_of_a_run_frees_its_lock(config, client, raw_redis):
    client.push(JOB)
    end(config, only_job(raw_redis))
    assert len(Locks(config)) == 0


@pytest.fixture
def through(redis_url):
    """The configuration of a worker whose server is behind a proxy."""
    with FaultProxy(redis_url) as proxy:
        config = Config()
        config.redis.url = proxy.url
        config.use(Unique())
        errors = []
        config.error_handlers.append(lambda error, context: errors.append(context["context"]))
        yield config, proxy, errors
        Installation.of(config).close()


def test_a_failed_release_is_reported_and_repeated_with_the_next_one(through, client, config, raw_redis):
    through, proxy, errors = through
    client.push_bulk({**JOB, "args": [[1], [2]]})
    proxy.refuse()
    releases = Releases(Installation.of(through))
    first, second = map(decode, raw_redis.lrange("queue:default", 0, -1))
    releases.free(first, "main")
    assert errors == ["releasing the lock of a unique job"]
    assert len(Locks(config)) == 2
    proxy.accept()
    releases.free(second, "main")
    assert len(Locks(config)) == 0


def test_a_worker_repeats_failed_releases(through, client, config, raw_redis, monkeypatch):
    through, proxy, errors = through
    monkeypatch.setattr(releases, "RETRY_SECONDS", 0.05)
    client.push(JOB)
    proxy.refuse()
    for handler in through.death_handlers:
        handler(only_job(raw_redis), None)
    assert errors
    raw_redis.delete("queue:default")
    proxy.accept()
    with RunningWorker(through):
        wait_for(lambda: len(Locks(config)) == 0)


def test_a_job_runs_once_more_when_the_server_is_back(through, client, raw_redis, monkeypatch):
    through, proxy, errors = through
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    monkeypatch.setattr(releases, "OUTAGE_SECONDS", 0.01)
    run = JobContext(payload, "default")
    effect = Releases(Installation.of(through)).effect(run, *held_by(payload))
    proxy.refuse()
    ending = threading.Thread(target=effect.done, args=(store.RUN_AGAIN, Succeeded()))
    ending.start()
    wait_for(lambda: errors)
    proxy.accept()
    ending.join(20)
    assert errors == ["running a unique job once more"]
    assert only_job(raw_redis)["rescheduled_once"] == payload["jid"]


def test_a_worker_that_stops_does_not_wait_for_the_server(through, client, config, raw_redis):
    through, proxy, errors = through
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    effect = Releases(Installation.of(through)).effect(
        JobContext(payload, "default", is_stopping=lambda: True), *held_by(payload)
    )
    proxy.refuse()
    effect.done(store.RUN_AGAIN, Succeeded())
    assert errors == ["running a unique job once more"]
    assert len(Locks(config)) == 1


@pytest.mark.parametrize("duplicates", [0, 1])
def test_a_lost_reply_may_have_requested_one_more_run(config, client, raw_redis, duplicates):
    client.push(AGAIN)
    for _ in range(duplicates):
        client.push(AGAIN)
    end(config, decode(raw_redis.rpop("queue:default")), lost=True)
    assert raw_redis.llen("queue:default") == len(Locks(config)) == duplicates


def test_a_job_whose_duplicates_were_dropped_runs_once_more(config, client, raw_redis, caplog):
    first = client.push(AGAIN)
    assert not client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    with caplog.at_level(logging.INFO, logger="offsider"):
        end(config, {**payload, "retry_count": 3, "error_class": "X"})
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


def test_without_duplicates_a_job_does_not_run_once_more(config, client, raw_redis):
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    end(config, payload)
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_a_job_that_did_not_succeed_does_not_run_once_more(config, client, raw_redis):
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    end(config, payload, outcome=Failed(ValueError()))
    assert len(Locks(config)) == 1  # the handlers of deaths are called next
    Releases(Installation.of(config)).free(payload, "main")
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_the_second_run_is_the_last(config, client, raw_redis):
    client.push(AGAIN)
    client.push(AGAIN)
    end(config, decode(raw_redis.rpop("queue:default")))
    assert not client.push(AGAIN)
    end(config, decode(raw_redis.rpop("queue:default")))
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_middleware_that_raises_at_the_second_push_does_not_keep_the_lock(config, client, raw_redis):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(error))
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))

    config.client_middleware.add(raising(LookupError("broken middleware")))
    end(config, payload)
    assert [str(error) for error in errors] == ["broken middleware"]
    assert len(Locks(config)) == 0


def test_middleware_that_stops_the_second_push_does_not_keep_the_lock(config, client, raw_redis):
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    config.client_middleware.add(returning())
    end(config, payload)
    assert len(Locks(config)) == 0
    assert raw_redis.llen("queue:default") == 0


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_a_second_push_with_a_lost_reply_is_made_once(through, client, raw_redis, fault):
    through, proxy, _ = through
    client.push(AGAIN)
    client.push(AGAIN)
    payload = decode(raw_redis.rpop("queue:default"))
    getattr(proxy, fault)(STORE.sha.encode())
    end(through, payload)
    assert only_job(raw_redis)["rescheduled_once"] == payload["jid"]


def test_a_large_job_that_runs_once_more_is_compressed_again(config, client, raw_redis):
    config.client.large_payloads = "compress"
    config.client.payload_limit_bytes = 100_000
    with registry.isolated():

        @job(name="Export", unique_until="until_executed", reschedule_once=True)
        def export(text: str) -> None: ...

        first = client.push({"class": export, "args": ["x" * 200_000]})
        assert not client.push({"class": export, "args": ["x" * 200_000]})
        (raw,) = raw_redis.lrange("queue:default", 0, -1)
        raw_redis.delete("queue:default")
        end(config, decode_plain(raw))
    again = only_job(raw_redis)
    assert again["compressed"] is True
    assert again["jid"] != first


def test_a_job_of_another_server_runs_once_more_there(client, config, other_url, raw_redis):
    config.add_server("bulk", url=other_url)
    jid = client.push({**AGAIN, "server": "bulk"})
    assert not client.push({**AGAIN, "server": "bulk"})
    bulk = Installation.of(config, "bulk").redis
    payload = decode(bulk.call("RPOP", "queue:default"))
    end(Installation.of(config, "bulk"), payload)
    again = decode(bulk.call("RPOP", "queue:default"))
    assert (again["rescheduled_once"], raw_redis.llen("queue:default")) == (jid, 0)
    assert len(Locks(Installation.of(config, "bulk"))) == 1
