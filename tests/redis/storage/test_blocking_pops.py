"""Blocking pops: the jobs that they move, how they are canceled, and how a failure of one is reported."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from selectors import DefaultSelector

import pytest
import redis as redis_py

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage import blocking_pops, redis as redis_module, working
from offsider.storage.blocking_pops import BlockingPops
from offsider.storage.redis import Redis, Wire
from offsider.storage.working import Owner, PrivateListEntry
from tests.snapshot import snapshot
from tests.threads import hammering
from tests.waiting import wait_for

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
LONG = 20.0


class Consumer:
    """The blocking pops of one owner, and the selector that they are registered with."""

    def __init__(self, pool: Redis) -> None:
        self.pool = pool
        self.selector = DefaultSelector()
        self.clock = [100.0]
        self.pops = BlockingPops(pool, self.selector, lambda: self.clock[0])

    def block(self, *queues: str, seconds: float = LONG) -> None:
        self.pops.start(OWNER, queues, seconds)

    def heard(self, seconds: float = 10) -> None:
        """Read the replies of the pops; at least one must arrive."""
        ready = self.selector.select(seconds)
        assert ready, "no pop has replied"
        for key, _ in ready:
            self.pops.read(key.data)

    def ack_and_claim(self, *queues: str, limit: int = 0) -> working.ClaimReply:
        """A claim that cancels the pops."""
        return working.ack_and_claim(self.pool, OWNER, queues, limit, pops=self.pops)

    def private(self, queue: str) -> str:
        return self.pool.keys.working(OWNER.identity, OWNER.capsule, queue)

    def close(self) -> None:
        self.pops.close()
        self.selector.close()


@pytest.fixture
def consumer_of(make_pool):
    """Makes consumers with a pool, or with one of their own, and closes them."""
    with ExitStack() as stack:

        def make(pool=None, **settings):
            consumer = Consumer(pool or make_pool(**settings))
            stack.callback(consumer.close)
            return consumer

        yield make


@pytest.fixture
def consumer(consumer_of, pool):
    return consumer_of(pool)


@pytest.fixture
def faulty(consumer_of, proxied):
    return consumer_of(proxied)


@pytest.fixture
def limited(consumer_of, redis_url, raw_redis):
    """A consumer of a user with these permissions, which may be changed."""

    def permit(*permissions):
        raw_redis.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", *permissions)

    permit("+@all")
    yield consumer_of(url=redis_url, username="limited", password="secret"), permit
    raw_redis.execute_command("ACL", "DELUSER", "limited")


def blocked(client) -> int:
    return client.info("clients")["blocked_clients"]


def waiters(client) -> list[dict]:
    """The connections that wait in a BLMOVE."""
    return [found for found in client.client_list() if found["cmd"] == "blmove" and "b" in found["flags"]]


# ---------------------------------------------------------------------------------------- moving jobs


def test_a_push_of_any_client_moves_its_job_into_the_private_list(consumer, raw_redis):
    consumer.block("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    raw_redis.lpush("queue:low", "job", "another")
    consumer.heard()
    assert consumer.pops.take() == [PrivateListEntry(OWNER, "low", b"job")]
    assert consumer.pops.take() == []
    assert snapshot(raw_redis) == {
        "queue:low": [b"another"],
        consumer.private("low").removeprefix(consumer.pool.keys.prefix): [b"job"],
    }
    assert [pop.queue for pop in consumer.pops.waiting] == ["high"]


def test_exactly_one_of_several_owners_is_woken(consumer_of, pool, raw_redis):
    scenes = [consumer_of(pool) for _ in range(3)]
    for scene in scenes:
        scene.block("low")
    wait_for(lambda: blocked(raw_redis) == 3)
    raw_redis.lpush("queue:low", "job")
    wait_for(lambda: blocked(raw_redis) == 2)
    scenes[0].heard()  # the first that waits is the first to be served
    assert [scene.pops.take() for scene in scenes] == [[PrivateListEntry(OWNER, "low", b"job")], [], []]


# ------------------------------------------------------------------------------------- canceling


def test_a_claim_cancels_all_blocking_pops_in_its_own_round_trip(consumer, raw_redis):
    consumer.block("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    raw_redis.config_resetstat()
    result = consumer.ack_and_claim("high", "low", limit=1)
    assert result.claimed == []
    assert consumer.pops.waiting == []
    assert blocked(raw_redis) == 0
    assert consumer.pops.take() == []
    assert (consumer.pops.ambiguous, consumer.pops.failure) == (False, None)
    calls = raw_redis.info("commandstats")
    assert (calls["cmdstat_client|unblock"]["calls"], calls["cmdstat_evalsha"]["calls"]) == (2, 1)


def test_a_job_in_transit_when_its_pop_is_canceled_is_read(consumer, raw_redis):
    """The server replies 0: no pop blocks any more, but its reply has to be read (rule 16)."""
    consumer.block("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.lpush("queue:low", "job")  # moved, and the leader has not looked yet
    consumer.ack_and_claim("low")
    assert consumer.pops.take() == [PrivateListEntry(OWNER, "low", b"job")]
    assert raw_redis.lrange(consumer.private("low"), 0, -1) == [b"job"]


def test_a_pop_may_move_a_less_important_job_than_the_claim(consumer, raw_redis):
    consumer.block("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    with raw_redis.pipeline(transaction=True) as both:
        both.lpush("queue:low", "l")
        both.lpush("queue:high", "h1", "h2")
        both.execute()
    result = consumer.ack_and_claim("high", "low", limit=1)
    assert sorted(entry.raw for entry in consumer.pops.take()) == [b"h1", b"l"]
    assert [raw for _, raw in result.claimed] == [b"h2"]


def test_may_call_back_asks_the_server_about_this_user(limited):
    consumer, permit = limited
    assert consumer.pops.may_call_back()
    permit("-@dangerous")
    assert not consumer.pops.may_call_back()
    permit("+client|unblock", "+client|id", "-blmove")
    assert not consumer.pops.may_call_back()


# ------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_broken_connection_makes_the_pop_ambiguous(faulty, proxy, raw_redis, how):
    """The pop may have moved a job whose reply was lost (rule 8)."""
    faulty.block("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    getattr(proxy, how)()
    faulty.heard()
    assert faulty.pops.ambiguous
    assert isinstance(faulty.pops.failure, RedisUnavailable)
    assert faulty.pops.waiting == []
    wait_for(lambda: blocked(raw_redis) == 0, what="the server has noticed too")
    faulty.block("low")
    raw_redis.lpush("queue:low", "job")
    faulty.heard()
    assert faulty.pops.take() == [PrivateListEntry(OWNER, "low", b"job")]


def test_a_killed_client_makes_the_pop_ambiguous(consumer, raw_redis):
    consumer.block("low")
    wait_for(lambda: waiters(raw_redis))
    raw_redis.client_kill_filter(_id=waiters(raw_redis)[0]["id"])
    consumer.heard()
    assert consumer.pops.ambiguous


def test_a_connection_closed_between_two_waits_is_replaced(consumer, raw_redis, monkeypatch):
    """The new socket has the same file descriptor, and another client id (rule 20)."""
    monkeypatch.setattr(redis_module, "MAX_IDLE_SECONDS", 0.0)  # as if it had rested
    consumer.block("low", seconds=0.05)
    consumer.heard()
    (client,) = [found for found in raw_redis.client_list() if found["cmd"] == "blmove"]
    raw_redis.client_kill_filter(_id=client["id"])
    consumer.block("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.lpush("queue:low", "job")
    consumer.heard()
    assert consumer.pops.take() == [PrivateListEntry(OWNER, "low", b"job")]
    consumer.block("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    consumer.ack_and_claim("low")
    assert blocked(raw_redis) == 0
    assert not consumer.pops.ambiguous


def test_an_overdue_pop_is_closed(faulty, proxy, raw_redis):
    """A connection that broke silently."""
    faulty.block("low", seconds=0.05)
    proxy.hold()
    assert faulty.pops.next_deadline() == pytest.approx(100.0 + 0.05 + blocking_pops.GRACE_SECONDS)
    faulty.clock[0] += blocking_pops.GRACE_SECONDS
    faulty.pops.drop_overdue()
    assert faulty.pops.waiting, "not yet"
    faulty.clock[0] += 0.1
    faulty.pops.drop_overdue()
    assert faulty.pops.waiting == []
    assert faulty.pops.ambiguous
    assert faulty.pops.next_deadline() is None


def test_a_pop_that_cannot_be_sent_leaves_the_others_blocking(faulty, proxy, raw_redis):
    faulty.block("high")
    wait_for(lambda: blocked(raw_redis) == 1)
    proxy._refusing = True
    with pytest.raises(RedisUnavailable):
        faulty.block("high", "low")
    assert [pop.queue for pop in faulty.pops.waiting] == ["high"]
    proxy.accept()
    raw_redis.lpush("queue:high", "job")
    faulty.heard()
    assert faulty.pops.take() == [PrivateListEntry(OWNER, "high", b"job")]


def test_a_refused_client_id_is_raised(limited):
    """Without its client id, a pop could not be canceled."""
    consumer, permit = limited
    permit("-client|id")
    with pytest.raises(RedisRefused):
        consumer.block("low")


def test_a_full_server_refuses_to_block(make_server, consumer_of):
    """Valkey refuses a BLMOVE without memory; the script still moves jobs (rule 16)."""
    server = make_server(kind="valkey")
    scene = consumer_of(url=server.url)
    with redis_py.Redis.from_url(server.url) as client:
        client.lpush("queue:low", "job")
        client.config_set("maxmemory", 1)
        scene.block("low")
        scene.heard()
        assert isinstance(scene.pops.failure, RedisRefused)
        assert scene.pops.failure.code == "OOM"
        assert not scene.pops.ambiguous
        assert [raw for _, raw in scene.ack_and_claim("low", limit=1).claimed] == [b"job"]


def test_a_refused_unblock_closes_the_pop(limited, raw_redis):
    """The user has lost the permission, so the reply of the pop could take until its timeout."""
    consumer, permit = limited
    consumer.block("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    permit("-client|unblock")
    consumer.ack_and_claim("low")
    assert consumer.pops.waiting == []
    assert consumer.pops.ambiguous
    assert isinstance(consumer.pops.failure, RedisRefused)
    assert consumer.pops.failure.code == "NOPERM"


def test_pops_block_again_on_a_restarted_server(make_server, consumer_of):
    server = make_server()
    scene = consumer_of(url=server.url)
    scene.block("low")
    with redis_py.Redis.from_url(server.url) as client:
        wait_for(lambda: blocked(client) == 1)
    server.stop()
    scene.heard()
    assert scene.pops.ambiguous
    with pytest.raises(RedisUnavailable):
        scene.block("low")
    server.start()
    scene.block("low")
    with redis_py.Redis.from_url(server.url) as client:
        client.lpush("queue:low", "job")
    scene.heard()
    assert scene.pops.take() == [PrivateListEntry(OWNER, "low", b"job")]


def test_many_producers_and_two_owners_lose_and_double_nothing(consumer_of, redis_url, raw_redis):
    """Concurrent pops and claims, while jobs arrive all the time."""
    jobs = 400
    scenes = [consumer_of(url=redis_url) for _ in range(2)]
    taken: list[list[bytes]] = [[], []]
    enough = threading.Event()

    def work(scene: Consumer, mine: list[bytes]) -> None:
        while not enough.is_set():
            scene.block("a", "b")
            for key, _ in scene.selector.select(0.05):
                scene.pops.read(key.data)
            result = scene.ack_and_claim("a", "b", limit=3)
            mine += [entry.raw for entry in scene.pops.take()] + [raw for _, raw in result.claimed]

    threads = [threading.Thread(target=work, args=pair) for pair in zip(scenes, taken, strict=True)]
    for thread in threads:
        thread.start()
    for number in range(jobs):
        raw_redis.lpush("queue:a" if number % 3 else "queue:b", str(number))
    wait_for(lambda: sum(map(len, taken)) >= jobs)
    enough.set()
    for thread in threads:
        thread.join()
    assert sorted(map(int, [*taken[0], *taken[1]])) == list(range(jobs))


def test_a_pop_that_is_canceled_before_it_reaches_the_server_is_canceled_again(consumer, raw_redis, monkeypatch):
    """Its command is still in transit on another connection, so the server replies 0 and the pop does not reply."""
    send, timers = Wire.send, []

    def late(wire: Wire, commands) -> None:
        timers.append(threading.Timer(0.2, send, (wire, commands)))
        timers[-1].start()

    monkeypatch.setattr(Wire, "send", late)
    consumer.block("low", seconds=60)
    monkeypatch.undo()
    began_at = time.monotonic()
    consumer.ack_and_claim("low")
    assert time.monotonic() - began_at < 30
    assert consumer.pops.waiting == []
    assert blocked(raw_redis) == 0
    assert not consumer.pops.ambiguous
    timers[0].join()


def test_pops_of_queues_that_are_no_longer_served_are_closed(consumer):
    """With `*`, the served queues change, and each former one would keep a connection open."""
    consumer.block("a", "b")
    consumer.ack_and_claim("a", "b")
    consumer.block("b", "c")
    assert sorted(consumer.pops._pops) == ["b", "c"]
    assert len(consumer.selector.get_map()) == 2


def test_any_thread_may_read_waiting(consumer):
    """An acknowledgement whose reply was lost needs it, to find out how long the server may still serve a pop."""
    ends = time.monotonic() + 1
    queues = [f"q{number}" for number in range(8)]
    with hammering(*[lambda: consumer.pops.waiting] * 3) as errors:
        while time.monotonic() < ends and not errors:
            consumer.block(*queues)
            consumer.pops.close()
    assert errors == []


@pytest.mark.not_on_cluster("REPLICAOF is not allowed on a node")
def test_a_pop_that_a_replica_refuses_gets_a_new_connection(consumer, raw_redis):
    """The host name may point to another server by then."""
    consumer.block("low")
    raw_redis.replicaof("127.0.0.1", "1")
    try:
        consumer.heard()
        assert consumer.pops.failure.code == "UNBLOCKED"
        assert len(consumer.selector.get_map()) == 0
    finally:
        raw_redis.replicaof("NO", "ONE")
    consumer.block("low")
    raw_redis.lpush("queue:low", "job")
    consumer.heard()
    assert [entry.raw for entry in consumer.pops.take()] == [b"job"]


def test_a_pop_that_cannot_be_canceled_again_is_closed_as_ambiguous(consumer, monkeypatch):
    consumer.block("low")
    consumer.pops.unblocks()

    def gone(*command):
        raise RedisUnavailable("gone", ambiguous=True)

    monkeypatch.setattr(consumer.pool, "call", gone)
    consumer.pops.called_back([0])
    assert isinstance(consumer.pops.failure, RedisUnavailable)
    assert consumer.pops.ambiguous
    assert consumer.pops.waiting == []


def test_a_pop_that_never_replies_is_closed_as_ambiguous(consumer, monkeypatch):
    monkeypatch.setattr(blocking_pops, "CALLS", 1)
    consumer.block("low")
    consumer.pops.unblocks()
    monkeypatch.setattr(consumer.pool, "call", lambda *command: 0)
    consumer.pops.called_back([0])
    assert consumer.pops.failure is None
    assert consumer.pops.ambiguous
    assert consumer.pops.waiting == []
