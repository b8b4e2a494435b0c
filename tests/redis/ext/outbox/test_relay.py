"""Pushes travel through a database: no rollback, outage or crash loses or doubles one."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from redis import Redis

from offsider.client import Client, relay as relays
from offsider.client.relay import Relay
from offsider.config.installation import Installation
from offsider.core.errors import InvalidArguments, RedisUnavailable
from offsider.core.payload import decode
from offsider.ext.encryption import Encryption
from offsider.ext.outbox import Outbox
from tests.faults import FaultProxy
from tests.waiting import wait_for

MAIL = {"class": "Mail", "args": [1]}
UNIQUE = {"class": "Report", "args": [1], "unique_for": 600}


class Crash(BaseException):
    """The process ends here."""


class Crashing:
    """A source whose relay crashes before or after one of its steps."""

    def __init__(self, source, when, step):
        self._source, self._step, self._when = source, step, when

    def __getattr__(self, name):
        method = getattr(self._source, name)
        if name != self._step:
            return method

        def crash(*args):
            if self._when == "after":
                method(*args)
            raise Crash

        return crash


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    monkeypatch.setattr(relays, "POLL_SECONDS", 0.01)


def relay(config, source):
    """Everything that one relay does until it has nothing left to do."""
    one = Relay(config, source)
    wait_for(lambda: one.tick() != relays.IDLE_SECONDS, what="the turn")
    one.finish()


def args_of(raw_redis, queue="default"):
    return [decode(raw)["args"] for raw in reversed(raw_redis.lrange(f"queue:{queue}", 0, -1))]


def rows(source):
    return source.read("main", 0, 1000)


def test_a_committed_push_reaches_its_queue_with_the_jid_of_the_call(config, source, atomic, raw_redis):
    with atomic():
        jid = Client(config).push({"class": "Mail", "args": [1]})
        later = Client(config).push({"class": "Mail", "args": [2], "at": 3600})
        assert raw_redis.keys("queue*") == []
    relay(config, source)
    assert decode(raw_redis.lindex("queue:default", 0))["jid"] == jid
    ((raw, due),) = raw_redis.zrange("schedule", 0, -1, withscores=True)
    assert (decode(raw)["jid"], due > time.time() + 3000) == (later, True)
    assert rows(source) == []


def test_the_row_of_an_encrypted_job_has_no_plain_text(config, source, atomic, raw_redis):
    config.use(Encryption({"one": Encryption.new_key()}, current="one"))
    with atomic():
        Client(config).push({"class": "Mail", "args": [1, "4111 1111"], "encrypt": True})
    (row,) = rows(source)
    assert b"4111" not in row.payload
    relay(config, source)
    assert raw_redis.lindex("queue:default", 0) == row.payload


def test_a_rolled_back_push_is_never_pushed_also_to_a_savepoint(config, source, atomic, raw_redis):
    client = Client(config)
    with suppress(ZeroDivisionError), atomic():
        client.push({"class": "Mail", "args": [1]})
        raise ZeroDivisionError
    with atomic():
        client.push({"class": "Mail", "args": [2]})
        with suppress(ZeroDivisionError), atomic():
            client.push_bulk({"class": "Mail", "args": [[3], [4]]})
            raise ZeroDivisionError
    relay(config, source)
    assert args_of(raw_redis) == [[2]]


def test_an_async_push_is_a_row_too(config, source, raw_redis):
    ran = []
    config.client_middleware.add(lambda push: ran.append(push.payload["args"]) or (yield))

    async def push():
        client = Client(config)
        await client.apush({"class": "Mail", "args": [1]})
        await client.apush_bulk({"class": "Mail", "args": [[2], [3]]})

    asyncio.run(push())
    assert raw_redis.keys("queue*") == []
    assert ran == [[1], [2], [3]]
    relay(config, source)
    assert args_of(raw_redis) == [[1], [2], [3]]


def test_middleware_and_the_check_of_arguments_run_at_the_call(config, source):
    client = Client(config)
    with pytest.raises(InvalidArguments):
        client.push({"class": "Mail", "args": [object()]})
    config.client_middleware.add(lambda push: (yield) if push.payload["args"] != [2] else None)
    assert not client.push({"class": "Mail", "args": [2]})
    first, second = client.push_bulk({"class": "Mail", "args": [[2], [3]]})
    assert (first, second) == ("", rows(source)[0].jid)


@pytest.mark.parametrize("step", ["before read", "after read", "before delete", "after delete"])
def test_a_crash_at_any_step_loses_and_doubles_nothing(config, source, atomic, raw_redis, step):
    with atomic():
        Client(config).push_bulk({"class": "Mail", "args": [[1], [2]]})
        Client(config).push(UNIQUE)
        Client(config).push({"class": "Mail", "args": [3]})
    with pytest.raises(Crash):
        Relay(config, Crashing(source, *step.split())).tick()
    # The job has finished before the next relay starts: its lock is free.
    ran = args_of(raw_redis)
    raw_redis.delete("queue:default", *raw_redis.keys("*unique*"), *raw_redis.keys("*turn*"))
    relay(config, source)
    assert sorted(ran + args_of(raw_redis)) == [[1], [1], [2], [3]]
    assert rows(source) == []


@pytest.mark.parametrize(
    "item, lost", [(item, lost) for item in (MAIL, UNIQUE) for lost in ("lose_reply", "lose_request")]
)
def test_a_lost_reply_or_request_of_redis_loses_and_doubles_nothing(config, source, server, item, lost):
    raw_redis = Redis.from_url(server.url)
    with raw_redis, FaultProxy(server.url) as proxy:
        config.redis.url = proxy.url
        Client(config).push(item)
        getattr(proxy, lost)(b"outbox-")
        relay(config, source)
        ran = args_of(raw_redis)
        raw_redis.delete("queue:default", *raw_redis.keys("*unique*"))
        relay(config, source)
        ran += args_of(raw_redis)
        Installation.of(config).close()
    assert ran == [[1]]
    assert proxy.lost == 1


def test_two_relays_at_once_double_nothing_and_keep_the_order(config, source, raw_redis):
    Client(config).push_bulk({"class": "Mail", "args": [[n] for n in range(4)]})
    Client(config).push(UNIQUE)
    here = Installation.of(config)
    batch, other = rows(source), Relay(config, source)
    assert len([*other._store(here, batch[:2], set())]) == 2
    relay(config, source)
    assert len([*other._store(here, batch, set())]) == 5
    source.delete([row.id for row in batch])
    assert args_of(raw_redis) == [[0], [1], [2], [3], [1]]


def test_a_duplicate_of_a_unique_job_is_deleted_and_logged(config, source, raw_redis, caplog):
    Client(config).push(UNIQUE)
    Client(config).push(UNIQUE)
    with caplog.at_level("INFO", "offsider"):
        relay(config, source)
    assert len(args_of(raw_redis)) == 1
    assert rows(source) == []
    assert "deduplicated" in caplog.text


def test_redis_down_at_the_commit_loses_nothing(config, source, raw_redis, redis_url, errors):
    with FaultProxy(redis_url) as proxy:
        config.redis.url = proxy.url
        proxy.refuse()
        Client(config).push({"class": "Mail", "args": [1]})
        one = Relay(config, source)
        for _ in range(3):
            one.tick()
        assert [context for _, context in errors] == ["relaying the outbox: server main"]
        proxy.accept()
        one.tick()
        Installation.of(config).close()
    assert args_of(raw_redis) == [[1]]


def test_rows_that_were_stored_before_a_failure_are_deleted(config, source, monkeypatch):
    client = Client(config)
    client.push({"class": "Mail", "args": [0]})
    client.push(UNIQUE)
    one = Relay(config, source)

    def fail(*_):
        raise RedisUnavailable("away")

    monkeypatch.setattr(one, "_store_by_script", fail)
    one.tick()
    one.finish()
    assert [decode(row.payload)["args"] for row in rows(source)] == [[1]]


def test_a_database_that_is_down_is_reported_once(config, source, errors):
    class Down:
        identity, noun = source.identity, source.noun
        close = source.close

        def read(self, *_):
            raise OSError("no database")

        waiting = read

    Client(config).push({"class": "Mail", "args": [1]})
    one = Relay(config, Down())
    for _ in range(3):
        one.tick()
    assert errors == [("no database", "relaying the outbox: the database")]
    assert len(rows(source)) == 1
    (finding,) = Outbox(Down()).check_outbox(Installation.of(config))
    assert "no database" in finding.what


def test_a_scheduled_job_that_cannot_be_stored_blocks_no_other(config, make_config, source, raw_redis, errors):
    client = Client(config)
    client.push({**UNIQUE, "at": 3600})
    client.push({"class": "Mail", "args": [2], "at": 3600})
    other = make_config()  # of a worker without the extension
    other.error_handlers.append(lambda error, _context: errors.append(str(error)))
    relay(other, source)
    assert [decode(raw)["args"] for raw in raw_redis.zrange("schedule", 0, -1)] == [[2]]
    assert [decode(row.payload)["args"] for row in rows(source)] == [[1]]
    assert "call config.use(Unique())" in errors[0]


def test_a_broken_guard_keeps_its_row_only(config, source, raw_redis, errors, monkeypatch):
    client = Client(config)
    client.push({"class": "Mail", "args": [0]})
    client.push(UNIQUE)
    client.push({"class": "Mail", "args": [2], "queue": "low"})

    def call(*_):
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(config.push_guard, "call", call)
    relay(config, source)
    assert (args_of(raw_redis), args_of(raw_redis, "low")) == ([[0]], [[2]])
    assert len(rows(source)) == 1
    assert "was not moved to Redis: broken" in errors[0][0]


def test_a_refused_queue_blocks_no_other_and_keeps_its_order(config, source, raw_redis, errors, monkeypatch):
    monkeypatch.setattr(relays, "BATCH", 2)
    raw_redis.set("queue:bad", "wrong")
    client = Client(config)
    for number, queue in enumerate(["bad", "default", "bad", "default"]):
        client.push({"class": "Mail", "args": [number], "queue": queue})
    client.push({**UNIQUE, "queue": "bad"})
    relay(config, source)
    assert args_of(raw_redis) == [[1], [3]]
    ((error, context),) = errors
    assert "WRONGTYPE" in error
    assert context == "relaying the outbox: queue:bad of server main"
    raw_redis.delete("queue:bad")
    relay(config, source)
    assert args_of(raw_redis, "bad") == [[0], [2], [1]]


def test_a_sweep_ends_though_rows_are_added_all_the_time(config, source, raw_redis, monkeypatch):
    """A transaction that commits late adds a row with a lower id, which only the next sweep reads."""
    monkeypatch.setattr(relays, "BATCH", 2)
    client, read, reads = Client(config), source.read, []

    def read_while_others_push(server, after, limit):
        assert len(reads) < 10
        reads.append(after)
        client.push({"class": "Mail", "args": [len(reads)]})
        client.push({"class": "Mail", "args": [len(reads)]})
        return read(server, after, limit)

    client.push({"class": "Mail", "args": [0]})
    monkeypatch.setattr(source, "read", read_while_others_push)
    Relay(config, source).tick()
    assert reads == [0]
    assert args_of(raw_redis) == [[0], [1]]


def test_a_full_server_keeps_all_rows(config, source, make_server, errors):
    server = make_server(maxmemory="3mb")
    config.redis.url = server.url
    for item in ({"class": "Mail", "args": [1]}, UNIQUE):
        Client(config).push(item)
    here = Installation.of(config)
    here.redis.call("CONFIG", "SET", "maxmemory", "1")
    relay(config, source)
    assert len(rows(source)) == 2
    assert "out of memory" in errors[0][0]
    here.redis.call("CONFIG", "SET", "maxmemory", "0")
    relay(config, source)
    assert rows(source) == []


def test_rows_for_an_unknown_server_stay_and_are_reported_once_a_minute(config, make_config, source, caplog):
    config.add_server("bulk", url="redis://localhost:1/5")
    Client(config).push({"class": "Mail", "args": [1], "server": "bulk"})
    one = Relay(make_config(), source)
    one.tick()
    one.tick()
    assert caplog.text.count("1 row of the outbox for the server 'bulk'") == 1
    assert len(source.read("bulk", 0, 10)) == 1


def test_one_relay_runs_at_a_time_and_the_next_takes_over_immediately(config, source, raw_redis):
    first, second = Relay(config, source), Relay(config, source)
    assert first.tick() is not None
    assert second.tick() == relays.IDLE_SECONDS
    first.finish()
    Client(config).push({"class": "Mail", "args": [1]})
    wait_for(lambda: second.tick() != relays.IDLE_SECONDS, what="the turn")
    assert args_of(raw_redis) == [[1]]
    second.finish()


def test_the_service_relays_in_its_thread_and_stops(config, source, raw_redis):
    service = Relay(config, source)
    service.start()
    Client(config).push({"class": "Mail", "args": [1]})
    wait_for(lambda: raw_redis.llen("queue:default") == 1, what="the job")
    service.stop()
    assert service.join(10)
    never = Relay(config, source)
    never.stop()
    never.start()
    assert never.join(10)


def test_postgresql_notifies_the_relay(config, source, alias):
    if alias != "postgres":
        assert not source.wait(10)
        return
    import threading

    from django.db import connections

    assert source.wait(0.01)

    def push():
        Client(config).push({"class": "Mail", "args": [1]})
        connections.close_all()

    pushing = threading.Timer(0.05, push)
    began = time.monotonic()
    pushing.start()
    assert source.wait(20)
    pushing.join()
    assert time.monotonic() - began < 10


def test_the_doctor_reports_old_rows(config, source):
    from offsider.django.models import OutboxRow

    server = Installation.of(config)
    Client(config).push({"class": "Mail", "args": [1]})
    assert list(Outbox(source).check_outbox(server)) == []
    OutboxRow.objects.using(source._alias).update(created_at=time.time() - 90)
    (finding,) = Outbox(source).check_outbox(server)
    assert "1 row of the outbox, the oldest for 9" in finding.what
    assert finding.numbers == {"rows": 1}


def test_a_push_without_the_outbox_is_sent_directly_to_redis(config, raw_redis):
    Client(config).push({"class": "Mail", "args": [1], "after_commit": True})
    Client(config).push({"class": "Mail", "args": [2], "after_commit": False})
    assert args_of(raw_redis) == [[1], [2]]


def test_a_push_in_a_transaction_of_another_database_waits_for_its_commit(config, source, alias, tmp_path):
    from django.db import connections, transaction

    # Not in memory: Django never closes such a database.
    connections.databases["other"] = {**connections.databases["default"], "NAME": str(tmp_path / "other")}
    with suppress(ZeroDivisionError), transaction.atomic(using="other"):
        Client(config).push({"class": "Mail", "args": [1]})
        raise ZeroDivisionError
    with transaction.atomic(using="other"):
        jid = Client(config).push({"class": "Mail", "args": [2]})
        assert rows(source) == []
    assert [row.jid for row in rows(source)] == [jid]
    connections["other"].close()
    del connections["other"], connections.databases["other"]
