"""Pops that wait at the server: what they bring, how they are called back, and what is known when one breaks."""

from __future__ import annotations

import threading
import time
from selectors import DefaultSelector

import pytest
import redis as redis_py

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage import parking as parking_module, redis as redis_module, working
from offsider.storage.parking import Parking
from offsider.storage.redis import Redis, RedisSettings, Wire
from offsider.storage.working import Entry, Owner
from tests.snapshot import snapshot
from tests.waiting import wait_for

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
LONG = 20.0


class Parked:
    """Parks of one owner, and the selector that they are registered with."""

    def __init__(self, pool: Redis) -> None:
        self.pool = pool
        self.selector = DefaultSelector()
        self.clock = [100.0]
        self.parking = Parking(pool, self.selector, lambda: self.clock[0])

    def park(self, *queues: str, seconds: float = LONG) -> None:
        self.parking.park(OWNER, queues, seconds)

    def heard(self, seconds: float = 10) -> None:
        """Read what the parks answer, at least one of them."""
        ready = self.selector.select(seconds)
        assert ready, "no park has answered"
        for key, _ in ready:
            self.parking.read(key.data)

    def exchange(self, *queues: str, limit: int = 0) -> working.Exchange:
        """A claim that calls the parks back."""
        return working.exchange(self.pool, OWNER, queues, limit, parking=self.parking)

    def private(self, queue: str) -> str:
        return self.pool.keys.working(OWNER.identity, OWNER.capsule, queue)

    def close(self) -> None:
        self.parking.close()
        self.selector.close()


@pytest.fixture
def parked(pool):
    parked = Parked(pool)
    yield parked
    parked.close()


@pytest.fixture
def faulty(proxied):
    parked = Parked(proxied)
    yield parked
    parked.close()


def blocked(client) -> int:
    return client.info("clients")["blocked_clients"]


def waiters(client) -> list[dict]:
    """The connections that wait in a BLMOVE."""
    return [found for found in client.client_list() if found["cmd"] == "blmove" and "b" in found["flags"]]


# ---------------------------------------------------------------------------------------- bringing


def test_a_push_of_anybody_brings_its_job_into_the_private_list(parked, raw_redis):
    parked.park("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    raw_redis.lpush("queue:low", "job", "another")
    parked.heard()
    assert parked.parking.take() == [Entry(OWNER, "low", b"job")]
    assert parked.parking.take() == []
    assert snapshot(raw_redis) == {"queue:low": [b"another"], parked.private("low"): [b"job"]}
    assert [park.queue for park in parked.parking.waiting] == ["high"]


def test_exactly_one_of_several_owners_is_woken(pool, raw_redis):
    scenes = [Parked(pool) for _ in range(3)]
    for scene in scenes:
        scene.park("low")
    wait_for(lambda: blocked(raw_redis) == 3)
    raw_redis.lpush("queue:low", "job")
    wait_for(lambda: blocked(raw_redis) == 2)
    scenes[0].heard()  # the first that waits is the first to be served
    assert [scene.parking.take() for scene in scenes] == [[Entry(OWNER, "low", b"job")], [], []]
    for scene in scenes:
        scene.close()


def test_whoever_waits_already_goes_on_waiting(parked, raw_redis):
    parked.park("high")
    wait_for(lambda: waiters(raw_redis))
    (before,) = waiters(raw_redis)
    parked.park("high", "low")
    wait_for(lambda: len(waiters(raw_redis)) == 2)
    assert before["id"] in [found["id"] for found in waiters(raw_redis)]


def test_a_park_that_brought_nothing_in_time_is_no_failure(parked):
    parked.park("low", seconds=0.05)
    parked.heard()
    assert parked.parking.take() == []
    assert parked.parking.waiting == []
    assert (parked.parking.doubtful, parked.parking.failure) == (False, None)


def test_the_oldest_job_comes_first(parked, raw_redis):
    raw_redis.lpush("queue:low", "old", "young")
    parked.park("low")
    parked.heard()
    assert parked.parking.take() == [Entry(OWNER, "low", b"old")]


# ------------------------------------------------------------------------------------- calling back


def test_an_exchange_calls_all_of_them_back_in_its_own_round_trip(parked, raw_redis):
    parked.park("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    raw_redis.config_resetstat()
    result = parked.exchange("high", "low", limit=1)
    assert result.claimed == []
    assert parked.parking.waiting == []
    assert blocked(raw_redis) == 0
    assert parked.parking.take() == []
    assert (parked.parking.doubtful, parked.parking.failure) == (False, None)
    calls = raw_redis.info("commandstats")
    assert (calls["cmdstat_client|unblock"]["calls"], calls["cmdstat_evalsha"]["calls"]) == (2, 1)


def test_a_job_that_was_on_its_way_when_its_park_was_called_back_is_read(parked, raw_redis):
    """The server answers 0: there is nobody to be called back, but a reply to be read (rule 16)."""
    parked.park("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.lpush("queue:low", "job")  # moved, and the leader has not looked yet
    parked.exchange("low")
    assert parked.parking.take() == [Entry(OWNER, "low", b"job")]
    assert raw_redis.lrange(parked.private("low"), 0, -1) == [b"job"]


def test_a_park_brings_the_less_important_one_beside_the_claim(parked, raw_redis):
    parked.park("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    with raw_redis.pipeline(transaction=True) as both:
        both.lpush("queue:low", "l")
        both.lpush("queue:high", "h1", "h2")
        both.execute()
    result = parked.exchange("high", "low", limit=1)
    assert sorted(entry.raw for entry in parked.parking.take()) == [b"h1", b"l"]
    assert [raw for _, raw in result.claimed] == [b"h2"]


def test_it_can_wait_again_after_it_was_called_back(parked, raw_redis):
    for job in (b"first", b"second"):
        parked.park("low")
        wait_for(lambda: blocked(raw_redis) == 1)
        parked.exchange("low")
        parked.park("low")
        raw_redis.lpush("queue:low", job)
        parked.heard()
        assert parked.parking.take() == [Entry(OWNER, "low", job)]


def test_whether_this_user_may_call_back_is_asked(parked, redis_url, raw_redis):
    assert parked.parking.may_call_back()
    raw_redis.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-@dangerous")
    limited = Redis(RedisSettings(url=redis_url, username="limited", password="secret"), size=1)
    scene = Parked(limited)
    assert not scene.parking.may_call_back()
    scene.close()
    limited.close()
    raw_redis.execute_command("ACL", "DELUSER", "limited")


# ------------------------------------------------------------------------------------------ trouble


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_connection_that_breaks_leaves_a_doubt(faulty, proxy, raw_redis, how):
    """The pop may have moved a job that nobody heard of (rule 8)."""
    faulty.park("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    getattr(proxy, how)()
    faulty.heard()
    assert faulty.parking.doubtful
    assert isinstance(faulty.parking.failure, RedisUnavailable)
    assert faulty.parking.waiting == []
    wait_for(lambda: blocked(raw_redis) == 0, what="the server has noticed too")
    faulty.park("low")
    raw_redis.lpush("queue:low", "job")
    faulty.heard()
    assert faulty.parking.take() == [Entry(OWNER, "low", b"job")]


def test_a_killed_client_is_a_doubt_as_well(parked, raw_redis):
    parked.park("low")
    wait_for(lambda: waiters(raw_redis))
    raw_redis.client_kill_filter(_id=waiters(raw_redis)[0]["id"])
    parked.heard()
    assert parked.parking.doubtful


def test_a_connection_that_the_server_closed_between_two_waits_is_replaced_and_heard(parked, raw_redis, monkeypatch):
    """The new socket has the old one's number, and a client id of its own (rule 20)."""
    monkeypatch.setattr(redis_module, "FRESH_SECONDS", 0.0)  # as if it had rested
    parked.park("low", seconds=0.05)
    parked.heard()
    (client,) = [found for found in raw_redis.client_list() if found["cmd"] == "blmove"]
    raw_redis.client_kill_filter(_id=client["id"])
    parked.park("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.lpush("queue:low", "job")
    parked.heard()
    assert parked.parking.take() == [Entry(OWNER, "low", b"job")]
    parked.park("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    parked.exchange("low")
    assert blocked(raw_redis) == 0
    assert not parked.parking.doubtful


def test_one_that_should_have_answered_long_ago_is_given_up(faulty, proxy, raw_redis):
    """A connection that was cut off without a word."""
    faulty.park("low", seconds=0.05)
    proxy.hold()
    assert faulty.parking.next_deadline() == pytest.approx(100.0 + 0.05 + parking_module.GRACE_SECONDS)
    faulty.clock[0] += parking_module.GRACE_SECONDS
    faulty.parking.drop_overdue()
    assert faulty.parking.waiting, "not yet"
    faulty.clock[0] += 0.1
    faulty.parking.drop_overdue()
    assert faulty.parking.waiting == []
    assert faulty.parking.doubtful
    assert faulty.parking.next_deadline() is None


def test_a_park_that_cannot_be_sent_leaves_the_others_waiting(faulty, proxy, raw_redis):
    faulty.park("high")
    wait_for(lambda: blocked(raw_redis) == 1)
    proxy._refusing = True
    with pytest.raises(RedisUnavailable):
        faulty.park("high", "low")
    assert [park.queue for park in faulty.parking.waiting] == ["high"]
    proxy.accept()
    raw_redis.lpush("queue:high", "job")
    faulty.heard()
    assert faulty.parking.take() == [Entry(OWNER, "high", b"job")]


def test_a_refusal_to_say_who_we_are_is_raised(redis_url, raw_redis):
    """Without its number a park could not be called back."""
    raw_redis.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-client|id")
    limited = Redis(RedisSettings(url=redis_url, username="limited", password="secret"), size=1)
    scene = Parked(limited)
    with pytest.raises(RedisRefused):
        scene.park("low")
    scene.close()
    limited.close()
    raw_redis.execute_command("ACL", "DELUSER", "limited")


def test_a_full_server_that_refuses_to_wait_says_so(make_server):
    """Valkey refuses a BLMOVE without memory; the script still moves jobs (rule 16)."""
    server = make_server(kind="valkey")
    pool = Redis(RedisSettings(url=server.url), size=2)
    scene = Parked(pool)
    with redis_py.Redis.from_url(server.url) as client:
        client.lpush("queue:low", "job")
        client.config_set("maxmemory", 1)
        scene.park("low")
        scene.heard()
        assert isinstance(scene.parking.failure, RedisRefused)
        assert scene.parking.failure.code == "OOM"
        assert not scene.parking.doubtful
        assert [raw for _, raw in scene.exchange("low", limit=1).claimed] == [b"job"]
    scene.close()
    pool.close()


def test_a_refused_unblock_gives_the_park_up(parked, redis_url, raw_redis):
    """A right that was taken away meanwhile: its answer cannot be waited for."""
    raw_redis.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all")
    limited = Redis(RedisSettings(url=redis_url, username="limited", password="secret"), size=1)
    scene = Parked(limited)
    scene.park("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.execute_command("ACL", "SETUSER", "limited", "-client|unblock")
    scene.exchange("low")
    assert scene.parking.waiting == []
    assert scene.parking.doubtful
    assert isinstance(scene.parking.failure, RedisRefused)
    assert scene.parking.failure.code == "NOPERM"
    scene.close()
    limited.close()
    raw_redis.execute_command("ACL", "DELUSER", "limited")


def test_closing_gives_up_every_connection(parked, raw_redis):
    parked.park("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    parked.parking.close()
    wait_for(lambda: blocked(raw_redis) == 0)
    assert parked.parking.waiting == []
    assert not parked.selector.get_map()
    parked.park("low")
    wait_for(lambda: blocked(raw_redis) == 1)


def test_a_restarted_server_is_waited_at_again(make_server):
    server = make_server()
    pool = Redis(RedisSettings(url=server.url), size=2)
    scene = Parked(pool)
    scene.park("low")
    with redis_py.Redis.from_url(server.url) as client:
        wait_for(lambda: blocked(client) == 1)
    server.stop()
    scene.heard()
    assert scene.parking.doubtful
    with pytest.raises(RedisUnavailable):
        scene.park("low")
    server.start()
    scene.park("low")
    with redis_py.Redis.from_url(server.url) as client:
        client.lpush("queue:low", "job")
    scene.heard()
    assert scene.parking.take() == [Entry(OWNER, "low", b"job")]
    scene.close()
    pool.close()


def test_many_producers_and_two_owners_lose_and_double_nothing(redis_url, raw_redis):
    """Parks and claims beside each other, while jobs arrive all the time."""
    jobs = 400
    pools = [Redis(RedisSettings(url=redis_url), size=1) for _ in range(2)]
    scenes = [Parked(pool) for pool in pools]
    taken: list[list[bytes]] = [[], []]
    enough = threading.Event()

    def work(scene: Parked, mine: list[bytes]) -> None:
        while not enough.is_set():
            scene.park("a", "b")
            for key, _ in scene.selector.select(0.05):
                scene.parking.read(key.data)
            result = scene.exchange("a", "b", limit=3)
            mine += [entry.raw for entry in scene.parking.take()] + [raw for _, raw in result.claimed]

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
    for scene, pool in zip(scenes, pools, strict=True):
        scene.close()
        pool.close()


def test_a_park_that_is_called_back_before_the_server_knows_it_is_called_back_again(parked, raw_redis, monkeypatch):
    """Its command is still on its way on a connection of its own, so the server answers 0 and no reply is coming."""
    send, timers = Wire.send, []

    def late(wire: Wire, commands) -> None:
        timers.append(threading.Timer(0.2, send, (wire, commands)))
        timers[-1].start()

    monkeypatch.setattr(Wire, "send", late)
    parked.park("low", seconds=60)
    monkeypatch.undo()
    began_at = time.monotonic()
    parked.exchange("low")
    assert time.monotonic() - began_at < 2
    assert parked.parking.waiting == []
    assert blocked(raw_redis) == 0
    assert not parked.parking.doubtful
    timers[0].join()


def test_parks_of_queues_that_nobody_asks_for_any_more_are_given_up(parked):
    """With `*`, queues come and go, and each would leave a connection behind."""
    parked.park("a", "b")
    parked.exchange("a", "b")
    parked.park("b", "c")
    assert sorted(parked.parking._parks) == ["b", "c"]
    assert len(parked.selector.get_map()) == 2


def test_a_park_that_a_replica_refuses_is_connected_anew(parked, raw_redis):
    """Another server may be behind the name by then."""
    parked.park("low")
    raw_redis.replicaof("127.0.0.1", "1")
    try:
        parked.heard()
        assert parked.parking.failure.code == "UNBLOCKED"
        assert len(parked.selector.get_map()) == 0
    finally:
        raw_redis.replicaof("NO", "ONE")
    parked.park("low")
    raw_redis.lpush("queue:low", "job")
    parked.heard()
    assert [entry.raw for entry in parked.parking.take()] == [b"job"]


def test_a_park_that_cannot_be_called_again_is_given_up_as_doubtful(parked, monkeypatch):
    parked.park("low")
    parked.parking.unblocks()

    def gone(*command):
        raise RedisUnavailable("gone", ambiguous=True)

    monkeypatch.setattr(parked.pool, "call", gone)
    parked.parking.called_back([0])
    assert isinstance(parked.parking.failure, RedisUnavailable)
    assert parked.parking.doubtful
    assert parked.parking.waiting == []


def test_a_park_that_never_answers_is_given_up_as_doubtful(parked, monkeypatch):
    monkeypatch.setattr(parking_module, "CALLS", 1)
    parked.park("low")
    parked.parking.unblocks()
    monkeypatch.setattr(parked.pool, "call", lambda *command: 0)
    parked.parking.called_back([0])
    assert parked.parking.failure is None
    assert parked.parking.doubtful
    assert parked.parking.waiting == []
