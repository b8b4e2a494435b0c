"""Locks of jobs that are done are freed, and a job whose duplicates were dropped runs once more."""

from __future__ import annotations

import logging
import threading

import pytest

from offsider.config.installation import Installation
from offsider.core.outcome import Failed, Succeeded
from offsider.core.payload import decode
from offsider.ext.unique import Locks, Unique, locks, releases
from offsider.ext.unique.guard import STORE
from offsider.ext.unique.releases import Releases, held_by
from offsider.runtime.context import JobContext
from offsider.storage.effects import run_alone
from tests.faults import FaultProxy
from tests.middleware import raising, returning
from tests.waiting import wait_for

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


@pytest.fixture
def payload(client, raw_redis):
    """A running job with a dropped duplicate."""
    client.push(AGAIN)
    assert not client.push(AGAIN)
    return decode(raw_redis.rpop("queue:default"))


@pytest.fixture
def through(redis_url, make_config):
    """The configuration of a worker whose server is behind a proxy."""
    with FaultProxy(redis_url) as proxy:
        config = make_config(Unique(), url=proxy.url)
        errors = []
        config.error_handlers.append(lambda error, context: errors.append(context["context"]))
        yield config, proxy, errors


def test_a_job_runs_once_more_when_the_server_is_back(through, payload, raw_redis, monkeypatch):
    through, proxy, errors = through
    monkeypatch.setattr(releases, "OUTAGE_SECONDS", 0.01)
    run = JobContext(payload, "default")
    effect = Releases(Installation.of(through)).effect(run, *held_by(payload))
    proxy.refuse()
    ending = threading.Thread(target=effect.done, args=(locks.RUN_AGAIN, Succeeded()))
    ending.start()
    wait_for(lambda: errors)
    proxy.accept()
    ending.join(20)
    assert errors == ["running a unique job once more"]
    assert only_job(raw_redis)["rescheduled_once"] == payload["jid"]


def test_a_worker_that_stops_does_not_wait_for_the_server(through, payload, config):
    through, proxy, errors = through
    effect = Releases(Installation.of(through)).effect(
        JobContext(payload, "default", is_stopping=lambda: True), *held_by(payload)
    )
    proxy.refuse()
    effect.done(locks.RUN_AGAIN, Succeeded())
    assert errors == ["running a unique job once more"]
    assert len(Locks(config)) == 1


@pytest.mark.parametrize("duplicates", [0, 1])
def test_a_lost_reply_may_have_requested_one_more_run(config, client, raw_redis, duplicates):
    client.push(AGAIN)
    for _ in range(duplicates):
        client.push(AGAIN)
    end(config, decode(raw_redis.rpop("queue:default")), lost=True)
    assert raw_redis.llen("queue:default") == len(Locks(config)) == duplicates


def test_a_job_whose_duplicates_were_dropped_runs_once_more(config, payload, raw_redis, caplog):
    with caplog.at_level(logging.INFO, logger="offsider"):
        end(config, {**payload, "retry_count": 3, "error_class": "X"})
    again = only_job(raw_redis)
    assert again["rescheduled_once"] == payload["jid"]
    assert again["jid"] != payload["jid"]
    assert (again["class"], again["args"], again["tags"]) == ("Hard", [1], ["red"])
    assert "retry_count" not in again
    assert "error_class" not in again
    (lock,) = Locks(config)
    assert (lock.jid, lock.runs_again) == (again["jid"], False)
    (line,) = [record for record in caplog.records if record.fields.get("job_status") == "rescheduled"]
    assert line.fields["jid"] == again["jid"]


def test_a_job_that_did_not_succeed_does_not_run_once_more(config, payload, raw_redis):
    end(config, payload, outcome=Failed(ValueError()))
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


def test_the_second_run_is_the_last(config, client, payload, raw_redis):
    end(config, payload)
    assert not client.push(AGAIN)
    end(config, decode(raw_redis.rpop("queue:default")))
    assert raw_redis.llen("queue:default") == 0
    assert len(Locks(config)) == 0


@pytest.mark.parametrize("middleware", [raising(LookupError("broken")), returning()], ids=["raises", "stops it"])
def test_middleware_that_refuses_the_second_push_does_not_keep_the_lock(config, payload, raw_redis, middleware):
    config.error_handlers.append(lambda error, context: None)
    config.client_middleware.add(middleware)
    end(config, payload)
    assert len(Locks(config)) == raw_redis.llen("queue:default") == 0


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_a_second_push_with_a_lost_reply_is_made_once(through, payload, raw_redis, fault):
    through, proxy, _ = through
    getattr(proxy, fault)(STORE.sha.encode())
    end(through, payload)
    assert only_job(raw_redis)["rescheduled_once"] == payload["jid"]


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
