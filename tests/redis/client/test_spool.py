"""Pushes during an outage are written to the spool, in order, and no other push pays for that."""

import asyncio
import logging
import os
import socket
import sqlite3
import sys
import threading
import time
from itertools import count
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest

from offsider.client import Client, relay as relays, spool as spools, spooling as spoolings
from offsider.client.relay_source import StoredPush
from offsider.client.spooling import Spooling, SpoolRelay
from offsider.config.config import Config
from offsider.config.hooks import Prepared
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisRefused, RedisUnavailable
from offsider.core.payload import decode
from offsider.ext.batches import Batch, Batches
from offsider.ext.unique import Unique
from offsider.fleet.metrics import read_families
from offsider.inspector.findings import examine
from offsider.storage.redis import Redis, RedisSettings
from tests.waiting import wait_for

MAIL = {"class": "Mail", "args": [1]}


def mail(number, **options):
    return {"class": "Mail", "args": [number], **options}


pytestmark = pytest.mark.usefixtures("sqlite_closed")


@pytest.fixture
def errors():
    return []


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.sqlite"


@pytest.fixture
def make(proxy, path, errors):
    """Makes configurations with the spool, and ends their relays."""
    made = []

    def make(spool=path, **settings):
        config = Config()
        config.redis.url = proxy.url
        config.client.spool = str(spool)
        config.client.push_timeout_seconds = 30  # a busy server is not an outage
        for name, value in settings.items():
            setattr(config.client, name, value)
        config.error_handlers.remove(config.error_handlers[0])
        config.error_handlers.append(lambda error, context: errors.append((str(error), context["context"])))
        made.append(config)
        return config

    yield make
    proxy.release()
    proxy.accept()
    for config in made:
        if config.shared.peek(Spooling):
            Spooling.of(config).stop()
            Spooling.of(config).spool.close()
        Installation.of(config).close()


@pytest.fixture
def config(make):
    return make()


@pytest.fixture
def still(monkeypatch):
    """No relay starts by itself."""
    monkeypatch.setattr(Spooling, "_start_relay", lambda _: None)


@pytest.fixture
def args_of(raw_redis, tag):
    def args_of(queue="default"):
        return [decode(raw)["args"][0] for raw in reversed(raw_redis.lrange(f"{tag}queue:{queue}", 0, -1))]

    return args_of


def spooled(config, server="main"):
    return [decode(row.payload)["args"][0] for row in Spooling.of(config).spool.read(server, 0, 10_000)]


def relay(config):
    one = SpoolRelay(config, Spooling.of(config))
    one.tick()
    one.finish()


def has_moved(config):
    spooling = Spooling.of(config)
    return spooling._relay is None and not spooling.servers()


@pytest.mark.parametrize("call", ["push", "apush"])
def test_pushes_of_an_outage_are_moved_in_order_and_others_follow(config, *, proxy, raw_redis, tag, args_of, call):
    client = Client(config)

    def push(item):
        if call == "push":
            return client.push(item)
        return asyncio.run(client.apush(item))

    proxy.refuse()
    jids = [push(mail(n)) for n in range(3)]
    due = time.time() + 1_000
    push(mail(3, at=due))
    push(mail(4, queue="low"))
    assert all(jids)
    assert spooled(config) == [0, 1, 2, 3, 4]
    proxy.accept()
    wait_for(lambda: has_moved(config), what="the rows")
    push(mail(5))
    assert args_of() == [0, 1, 2, 5]
    assert args_of("low") == [4]
    ((raw, score),) = raw_redis.zrange(f"{tag}schedule", 0, -1, withscores=True)
    assert (decode(raw)["args"], score) == ([3], due)
    assert {name.decode() for name in raw_redis.smembers(f"{tag}queues")} == {"default", "low"}
    client.close()


@pytest.mark.parametrize("call", ["push_bulk", "apush_bulk"])
def test_a_bulk_push_is_spooled_as_a_whole(config, proxy, still, args_of, call):
    proxy.refuse()
    found = getattr(Client(config), call)({"class": "Mail", "args": [[n] for n in range(250)]}, batch_size=100)
    jids = asyncio.run(found) if call == "apush_bulk" else found
    assert len({*jids}) == 250
    assert spooled(config) == [*range(250)]
    proxy.accept()
    relay(config)
    assert args_of() == [*range(250)]


def test_after_one_failure_no_push_asks_the_server(config, proxy, still, monkeypatch):
    client, asked = Client(config), []
    request = client._request
    monkeypatch.setattr(client, "_request", lambda *args: asked.append(args) or request(*args))
    proxy.refuse()
    for number in range(5):
        client.push(mail(number))
    assert len(asked) == 1
    assert spooled(config) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_swallows_packets_delays_one_push(config, proxy, is_async, args_of):
    client = Client(config)
    client.push(mail(0))
    config.client.push_timeout_seconds = 0.3
    proxy.black_hole()

    def push(item):
        return asyncio.run(client.apush(item)) if is_async else client.push(item)

    with pytest.raises(RedisUnavailable) as failure:
        push(mail(1))
    assert failure.value.ambiguous
    seconds = []
    for number in range(2, 22):
        began = time.monotonic()
        push(mail(number))
        seconds.append(time.monotonic() - began)
    assert median(seconds) < 0.3
    proxy.release()
    wait_for(lambda: has_moved(config), what="the rows")
    wait_for(lambda: 1 in args_of(), what="the push in doubt, whose bytes were on their way")
    assert [number for number in args_of() if number != 1] == [0, *range(2, 22)]


def test_coroutines_that_waited_behind_a_lost_push_are_spooled(config, proxy, args_of):
    async def push():
        client = Client(config)
        await client.apush(mail(0))
        config.client.push_timeout_seconds = 0.3
        proxy.black_hole()
        found = await asyncio.gather(*(client.apush(mail(n)) for n in range(1, 20)), return_exceptions=True)
        assert isinstance(found[0], RedisUnavailable)
        assert all(found[1:])

    asyncio.run(push())
    assert spooled(config) == [*range(2, 20)]


@pytest.mark.parametrize("is_async", [False, True])
def test_pushes_that_never_pause_reach_the_server_again_in_their_order(config, proxy, args_of, is_async):
    client, stop, numbers, pushed = Client(config), threading.Event(), count(), []

    def run():
        while not stop.is_set():
            client.push(mail(next(numbers)))
            pushed.append(None)

    async def run_async():
        while not stop.is_set():
            await asyncio.gather(*(client.apush(mail(next(numbers))) for _ in range(3)))
            pushed.append(None)

    proxy.refuse()
    pushing = threading.Thread(target=(lambda: asyncio.run(run_async())) if is_async else run)
    pushing.start()
    try:
        wait_for(lambda: len(pushed) > 50, what="spooled pushes")
        proxy.accept()
        wait_for(lambda: has_moved(config), what="the rows, though pushes go on")
        number = len(pushed)
        wait_for(lambda: len(pushed) > number + 50, what="pushes to the server")
    finally:
        stop.set()
        pushing.join()
    assert args_of() == [*range(next(numbers))]


def test_a_push_that_waits_for_the_relay_goes_to_the_server(config, proxy, still, args_of, monkeypatch):
    """Both the blocking one and that of a coroutine."""
    client, spooling = Client(config), Spooling.of(config)
    proxy.refuse()
    client.push(mail(0))
    proxy.accept()
    swept, waiting = spooling.swept, []

    def sweep(server):
        waiting.append(threading.Thread(target=client.push, args=(mail(1, queue="a"),)))
        waiting.append(threading.Thread(target=lambda: asyncio.run(client.apush(mail(2, queue="b")))))
        for thread in waiting:
            thread.start()
        wait_for(lambda: len(spooling.spool._entries) == 2, what="the pushes behind the lock")
        swept(server)

    monkeypatch.setattr(spooling, "swept", sweep)
    relay(config)
    for thread in waiting:
        thread.join()
    assert (args_of(), args_of("a"), args_of("b")) == ([0], [1], [2])
    assert spooled(config) == []


def test_pushes_that_need_the_server_are_raised(config, proxy, still):
    config.use(Batches())
    proxy.refuse()
    client = Client(config)
    with pytest.raises(RedisUnavailable):
        client.push(MAIL, wait_replicas=1)
    with pytest.raises(RedisUnavailable):
        asyncio.run(client.apush(MAIL, wait_replicas=1))
    with pytest.raises(RedisUnavailable), Batch(config=config):
        client.push(MAIL)
    member = Prepared({"class": "Mail", "args": [], "jid": "j", "bid": "b"}, b"{}", "default", None)
    for _ in range(2):  # the second one after the server has failed
        with pytest.raises(RedisUnavailable):
            client.store_prepared([member])
        client.push(MAIL)
    foreign = Redis(RedisSettings(url=proxy.url), size=1)
    with pytest.raises(RedisUnavailable):
        Client(config, foreign).push(MAIL)
    assert spooled(config) == [1, 1]


def test_a_refusal_of_the_server_is_raised(config, raw_redis, tag, path):
    raw_redis.set(f"{tag}queue:default", "wrong")
    with pytest.raises(RedisRefused, match=r"WRONGTYPE|wrong kind"):
        Client(config).push(MAIL)
    assert not path.exists()


def test_a_unique_job_is_spooled_and_its_duplicate_dropped(config, proxy, still, args_of):
    config.use(Unique())
    client = Client(config)
    proxy.refuse()
    for _ in range(2):
        client.push(mail(7, unique_for=60))
    proxy.accept()
    relay(config)
    assert args_of() == [7]
    assert spooled(config) == []


def test_a_full_spool_raises_the_error_of_the_server_with_the_next_step(make, proxy, still):
    config = make(spool_max_jobs=2)
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    client.push(mail(2))
    for push in (lambda: client.push(mail(3)), lambda: asyncio.run(client.apush(mail(3)))):
        with pytest.raises(RedisUnavailable, match=r"cannot be reached.*; the spool .* is full.*raise that") as failure:
            push()
        assert not failure.value.ambiguous
        assert "is full" in str(failure.value.__cause__)
    assert spooled(config) == [1, 2]


def test_a_locked_file_fails_the_push_and_the_next_one_is_stored(config, proxy, still, path, monkeypatch):
    monkeypatch.setattr(spools, "BUSY_SECONDS", 0.05)
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    locking = sqlite3.connect(path, isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    with pytest.raises(RedisUnavailable, match=r"cannot be reached.*; the spool .* database is locked"):
        client.push(mail(2))
    locking.execute("ROLLBACK")
    locking.close()
    client.push(mail(3))
    assert spooled(config) == [1, 3]


def test_a_spool_that_breaks_in_an_outage_keeps_no_push_from_a_server_that_replies_again(
    config, *, proxy, still, args_of, path, monkeypatch
):
    monkeypatch.setattr(spools, "BUSY_SECONDS", 0.05)
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    with sqlite3.connect(path, isolation_level=None) as locking:
        locking.execute("BEGIN IMMEDIATE")
        with pytest.raises(RedisUnavailable, match="database is locked"):
            client.push(mail(2))
        proxy.accept()
        client.push(mail(3))
        asyncio.run(client.apush(mail(4)))
        locking.execute("ROLLBACK")
    locking.close()
    assert args_of() == [3, 4]
    relay(config)
    assert args_of() == [3, 4, 1]


def test_coroutines_at_the_limit_of_the_spool_are_stored(make, proxy, still):
    config = make(spool_max_jobs=10)

    async def push():
        client = Client(config)
        return await asyncio.gather(*(client.apush(mail(n)) for n in range(30)), return_exceptions=True)

    proxy.refuse()
    assert all(isinstance(jid, str) for jid in asyncio.run(push()))


def test_a_server_that_swallows_packets_keeps_the_lock_of_the_spool_for_a_moment(config, proxy, still, monkeypatch):
    config.redis.socket_timeout_seconds, config.client.push_timeout_seconds = 60, 0.3
    client, spooling = Client(config), Spooling.of(config)
    proxy.refuse()
    client.push(mail(1))
    proxy.accept()
    one, seconds = SpoolRelay(config, spooling), []
    monkeypatch.setattr(relays.Relay, "_sweep", lambda *_: True)  # the server is lost after it

    def move(server):
        proxy.black_hole()
        began = time.monotonic()
        try:
            return relays.Relay._move(one, server)
        finally:
            seconds.append(time.monotonic() - began)

    monkeypatch.setattr(one, "_move", move)
    one.tick()
    assert 0.2 < seconds[0] < 30
    proxy.release()
    one.finish()


def test_the_lock_is_taken_for_one_batch_only(config, proxy, still, args_of, monkeypatch):
    client, spooling = Client(config), Spooling.of(config)
    proxy.refuse()
    for number in range(5):
        client.push(mail(number))
    proxy.accept()
    monkeypatch.setattr(spoolings, "BATCH", 3)
    one, sweep = SpoolRelay(config, spooling), relays.Relay._sweep
    monkeypatch.setattr(relays.Relay, "_sweep", lambda *_: True)  # as if other rows had followed
    assert one.tick() == 0
    assert args_of() == []
    monkeypatch.setattr(relays.Relay, "_sweep", sweep)
    assert one.tick() is None
    assert args_of() == [0, 1, 2, 3, 4]
    one.finish()


def test_an_event_loop_does_not_wait_for_the_file_to_start_the_relay(config, proxy, monkeypatch):
    spooling, done = Spooling.of(config), threading.Event()
    monkeypatch.setattr(SpoolRelay, "start", lambda _: done.set())
    with spooling.spool.lock:
        thread = threading.Thread(target=spooling.failed, args=("main", "lost"))
        thread.start()
        assert done.wait(10)
    thread.join()
    spooling._relay = None


def test_the_relay_runs_while_a_server_is_lost_though_there_are_no_rows(config, still):
    spooling = Spooling.of(config)
    spooling.failed("main", "lost")
    assert not spooling.rest()
    spooling.forget("main")
    assert spooling.rest()


def test_a_log_handler_may_push(config, proxy):
    spooling = Spooling.of(config)
    held = []

    class Handler(logging.Handler):
        def emit(self, record):
            held.append(spooling.spool._connection is not None and spooling.spool._connection.in_transaction)

    handler = Handler()
    logging.getLogger("offsider").addHandler(handler)
    proxy.refuse()
    try:
        Client(config).push(mail(1))
    finally:
        logging.getLogger("offsider").removeHandler(handler)
    assert held
    assert not any(held)
    spooling.fall_behind("main", "lost again")
    assert spooling._news == []  # one warning in an outage


def test_a_spool_that_cannot_exist_is_reported_at_the_first_push_which_is_stored(make, errors, args_of, tmp_path):
    config = make(tmp_path / "missing" / "spool")
    Client(config).push(MAIL)
    assert args_of() == [1]
    ((error, context),) = errors
    assert "client.spool must name a file in an existing folder" in error
    assert context == "opening the spool"


def test_a_folder_is_refused_as_a_setting(config, tmp_path):
    with pytest.raises(ConfigurationError, match=r"client.spool expects the path of a file.*it is a folder"):
        config.client.spool = str(tmp_path)


@pytest.mark.parametrize("value", ["~nouser_x/spool", "a\0b"])
def test_a_path_that_the_system_refuses_is_refused_as_a_setting(config, value):
    with pytest.raises(ConfigurationError, match=r"client.spool expects the path of a file.*it is no usable path"):
        config.client.spool = value


def test_a_relative_path_is_in_the_folder_of_the_configuration(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config.client.spool = "spool"
    monkeypatch.chdir("/")
    assert Spooling.of(config).spool.path == str(tmp_path.resolve() / "spool")


def test_the_next_process_moves_the_rows_at_its_first_push(make, proxy, still, args_of, monkeypatch):
    killed, config = make(), make()
    proxy.refuse()
    Client(killed).push(mail(1))
    proxy.accept()
    monkeypatch.undo()
    Client(config).push(mail(2))
    wait_for(lambda: has_moved(config), what="the rows of the other process")
    assert sorted(args_of()) == [1, 2]


def test_a_worker_moves_the_rows_of_other_processes(make, *, proxy, still, args_of, errors, monkeypatch):
    pushing, config = make(), make()
    service = Spooling.of(config).service()
    service.start()
    proxy.refuse()
    client = Client(pushing)
    client.push(mail(1))
    proxy.accept()
    monkeypatch.undo()
    wait_for(lambda: args_of() == [1], what="the row")
    service.stop()
    assert service.join(10)
    assert errors == []
    config = make()
    Client(config).push(mail(2))
    idle = Spooling.of(config)
    wait_for(lambda: idle._relay is None, what="the end of its relay")
    idle.watch()
    assert idle._relay is None


def test_a_broken_file_is_reported_once_and_does_not_stop_the_service(config, errors, path):
    path.write_text("no database " * 100)
    spooling = Spooling.of(config)
    Client(config).push(MAIL)
    wait_for(lambda: errors, what="the report")
    one = spooling._relay
    ticks = one.ticks
    spooling.watch()
    one.wake()
    wait_for(lambda: one.ticks > ticks + 1, what="the next tick")
    assert spooling._relay is one
    ((error, context),) = errors
    assert "move the file away" in error
    assert context == "relaying the spool: the database"


def test_a_refused_row_is_reported_and_keeps_the_order_of_its_queue_only(
    config, *, proxy, still, raw_redis, tag, args_of, errors
):
    raw_redis.set(f"{tag}queue:bad", "wrong")
    client = Client(config)
    proxy.refuse()
    client.push(mail(1, queue="bad"))
    client.push(mail(2))
    proxy.accept()
    relay(config)
    assert args_of() == [2]
    assert [context for _, context in errors] == ["relaying the spool: queue:bad of server main"]
    client.push(mail(3))
    client.push(mail(4, queue="bad"))
    assert args_of() == [2, 3]
    assert spooled(config) == [1, 4]
    raw_redis.delete(f"{tag}queue:bad")
    relay(config)
    assert args_of("bad") == [1, 4]
    client.push(mail(5, queue="bad"))
    assert args_of("bad") == [1, 4, 5]


def test_rows_of_an_unknown_server_are_reported_and_stay(config, still, caplog):
    spooling = Spooling.of(config)
    spooling.spool.add([StoredPush("j", "bulk", "queue:default", None, b"{}", False)])
    one = SpoolRelay(config, spooling)
    assert one.tick() is not None
    one.tick()
    assert caplog.text.count("1 row of the spool for the server 'bulk', which is not configured in this process") == 1
    assert spooling.spool.servers() == {"bulk"}


def test_the_jobs_of_another_server_have_an_outage_of_their_own(config, proxy, still, other_url, args_of):
    config.add_server("bulk", url=other_url)
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    assert client.push(mail(2, server="bulk"))
    assert spooled(config) == [1]
    assert spooled(config, "bulk") == []


def test_a_process_goes_on_though_another_one_has_the_lease(make, proxy, still, args_of):
    first, second = make(), make()
    for config in (first, second):
        Spooling.of(config)
    leading = SpoolRelay(first, Spooling.of(first))
    Spooling.of(first).spool.add([])
    proxy.refuse()
    Client(first).push(mail(1))
    Client(second).push(mail(2))
    proxy.accept()
    leading._sweep(Installation.of(first))
    Client(second).push(mail(3))
    assert spooled(second) == [3]
    relay(second)
    Client(second).push(mail(4))
    assert args_of() == [1, 2, 3, 4]
    leading.finish()


def test_a_process_without_the_lease_leaves_many_rows_to_the_other(make, proxy, still, args_of, monkeypatch):
    monkeypatch.setattr(spoolings, "BATCH", 2)
    first, second = make(), make()
    leading = SpoolRelay(first, Spooling.of(first))
    proxy.refuse()
    Client(first).push(mail(0))
    proxy.accept()
    leading.tick()
    proxy.refuse()
    for number in range(1, 4):
        Client(second).push(mail(number))
    proxy.accept()
    relay(second)
    assert args_of() == [0]
    leading.tick()
    leading.finish()
    relay(second)
    assert args_of() == [0, 1, 2, 3]


def test_a_forked_child_opens_the_file_itself(config, proxy, still):
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    child = os.fork()
    if not child:
        try:
            client.push(mail(2))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    client.push(mail(3))
    assert spooled(config) == [1, 2, 3]
    assert Spooling.of(config).spool.close() is None


def test_the_spool_of_the_parent_is_kept_in_a_child(config, proxy, still, monkeypatch):
    """As in a forked child, with another pid."""
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    of_parent = Spooling.of(config).spool
    monkeypatch.setattr(spoolings.this_process, "pid", -1)
    client.push(mail(2))
    own = Spooling.of(config).spool
    assert own is not of_parent
    assert of_parent in spoolings._inherited
    monkeypatch.undo()
    own.close()
    of_parent.close()


def test_of_two_failing_pushes_one_starts_the_relay(config, monkeypatch):
    """The other one waits for the lock until the relay runs."""
    spooling, running = Spooling.of(config), SimpleNamespace(alive=True)

    class Lock:
        def __enter__(self):
            spooling._relay = running

        def __exit__(self, *_):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(spooling, "_starting", Lock())
        spooling._start_relay()
    assert spooling._relay is running
    spooling._relay = None


def test_the_relay_asks_for_effects_and_keeps_a_row_whose_effect_fails(config, *, proxy, still, args_of, errors):
    class Effects:
        broken = True

        def concerns(self, push):
            return True

        def effects(self, push, at):
            if self.broken and push.payload["args"] == [2]:
                raise ZeroDivisionError("broken effect")
            return ()

    effects = Effects()
    config.push_effects.append(effects)
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    effects.broken = False
    client.push(mail(2, queue="low"))
    effects.broken = True
    proxy.accept()
    relay(config)
    assert (args_of(), spooled(config)) == ([1], [2])
    assert "was not moved to Redis: broken effect" in errors[0][0]


def test_at_the_end_of_a_process_no_thread_starts_and_the_row_stays(config, proxy, monkeypatch):
    def fail(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(spoolings.SpoolRelay, "start", fail)
    proxy.refuse()
    Client(config).push(mail(1))
    assert spooled(config) == [1]


def test_a_buffer_in_memory_moves_its_rows_and_reports_those_it_loses(make, proxy, still, args_of, caplog):
    config = make(":memory:")
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    spooling = Spooling.of(config)
    assert spooling.watch() > 0
    spooling._report_lost()
    assert "the process ends, and the spool in memory with 1 push is lost" in caplog.text
    proxy.accept()
    relay(config)
    assert args_of() == [1]
    caplog.clear()
    spooling._report_lost()
    assert caplog.text == ""
    with spooling.spool.lock:  # as a forked child may have inherited it
        spooling._pid = -1
        child = threading.Thread(target=spooling._report_lost)
        child.start()
        child.join(10)
        assert not child.is_alive()


def test_the_doctor_and_the_metrics_show_the_rows(config, proxy, still, path, errors):
    client = Client(config)
    proxy.refuse()
    client.push(mail(1))
    proxy.accept()

    def findings():
        return [finding for finding in examine(config) if finding.name == "spool"]

    def metric():
        return [family for family in read_families(Installation.of(config)) if family.name == "offsider_spool_jobs"]

    assert findings() == []
    (family,) = metric()
    (sample,) = family.samples
    assert (sample.value, sample.labels) == (1, {"host": socket.gethostname()})
    with sqlite3.connect(path) as database:
        database.execute("UPDATE offsider_spool SET created_at = created_at - 90")
    database.close()
    (finding,) = findings()
    assert "1 row of the spool, the oldest for 9" in finding.what
    proxy.refuse()
    assert "1 row of the spool" in findings()[0].what
    proxy.accept()
    Spooling.of(config).spool.close()
    path.write_text("no database " * 100)
    (finding,) = findings()
    assert "the spool cannot be read" in finding.what
    assert metric() == []
    assert errors[-1][1] == "reading the spool"
    config.client.spool = ":memory:"
    assert findings() == []
    config.client.spool = ""
    assert findings() == metric() == []


def test_a_push_without_a_spool_calls_nothing_of_it(make_config_plain):
    client, files = Client(make_config_plain), []
    client.push(MAIL)
    sys.setprofile(lambda frame, event, _: files.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        client.push(MAIL)
        asyncio.run(client.apush(MAIL))
    finally:
        sys.setprofile(None)
    assert files
    assert not {"spool.py", "spooling.py", "relay.py", "relay_source.py"}.intersection(
        Path(file).name for file in files
    )


@pytest.fixture
def make_config_plain(redis_url):
    config = Config()
    config.redis.url = redis_url
    yield config
    Installation.of(config).close()
