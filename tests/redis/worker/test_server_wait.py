"""How a leader sleeps, blocked or polling, and everything that ends its sleep."""

from __future__ import annotations

import os
import threading
import time

import pytest
import redis as redis_py

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.working import Owner
from offsider.worker.fetch import server_wait
from offsider.worker.fetch.server_wait import MAX_POPS, BusiestQueues, ServerWait, WaitStrategy
from offsider.worker.unit_of_work import UnitOfWork
from tests.waiting import wait_for

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
MANY = [f"q{number}" for number in range(MAX_POPS + 2)]
LIFE = 45.0


def always() -> bool:
    return True


class Leader:
    """A thread that sleeps; `slept` counts its wake-ups."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.waiting = ServerWait(redis, LIFE)
        self.errors: list[BaseException] = []

    def sleep(self, *queues: str) -> threading.Thread:
        """Sleep in a thread of its own; the question for the strategy blocks for a moment, too."""
        self.waiting.strategy()

        def sleeper() -> None:
            try:
                self.waiting.sleep(OWNER, queues, always)
            except (RedisRefused, RedisUnavailable) as error:
                self.errors.append(error)

        thread = threading.Thread(target=sleeper)
        thread.start()
        return thread

    def taken(self) -> list[bytes]:
        return [entry.raw for entry in self.waiting.pops.take()]

    def close(self) -> None:
        self.waiting.close()
        self.redis.close()


def make(url: str, **settings) -> Leader:
    return Leader(Redis(RedisSettings(url=url, socket_timeout_seconds=30, **settings), size=3))


@pytest.fixture
def leader(redis_url):
    leader = make(redis_url)
    yield leader
    leader.close()


@pytest.fixture
def limited(redis_url, raw_redis):
    """A user who may not cancel blocking pops."""
    raw_redis.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-client|unblock")
    leader = make(redis_url, username="limited", password="secret")
    yield leader
    leader.close()
    raw_redis.execute_command("ACL", "DELUSER", "limited")


def blocked(client) -> int:
    return client.info("clients")["blocked_clients"]


# ------------------------------------------------------------------------------------------- the ways


def test_the_first_strategy_that_the_server_allows_is_used(leader):
    assert leader.waiting.strategy() is WaitStrategy.BLOCKED


def test_without_permission_to_block_the_server_is_polled(limited):
    assert limited.waiting.strategy() is WaitStrategy.POLLED


def test_a_server_that_cannot_be_asked_is_asked_again(make_server):
    server = make_server()
    leader = make(server.url)
    server.stop()
    with pytest.raises(RedisUnavailable):
        leader.waiting.strategy()
    server.start()
    assert leader.waiting.strategy() is WaitStrategy.BLOCKED
    leader.close()


def test_two_threads_may_ask_at_once(limited):
    """The leader, and the boot code that logs the wait strategy."""
    for _ in range(20):
        answers: list[WaitStrategy] = []
        threads = [threading.Thread(target=lambda: answers.append(limited.waiting.strategy())) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert answers == [WaitStrategy.POLLED] * 4
        limited.waiting._close_connections()


# -------------------------------------------------------------------------------------------- blocked


def test_a_blocked_leader_sends_nothing_until_a_job_arrives(leader, raw_redis):
    thread = leader.sleep("high", "low")
    wait_for(lambda: blocked(raw_redis) == 2)
    raw_redis.config_resetstat()
    raw_redis.lpush("queue:low", "job")
    thread.join(10)
    assert leader.taken() == [b"job"]
    calls = {name for name, stats in raw_redis.info("commandstats").items() if stats["calls"]}
    assert calls <= {"cmdstat_lpush", "cmdstat_blmove", "cmdstat_info", "cmdstat_config|resetstat"}


def test_a_job_wakes_it_within_milliseconds(leader, raw_redis):
    for _ in range(5):
        thread = leader.sleep("low")
        wait_for(lambda: blocked(raw_redis) == 1)
        pushed_at = time.monotonic()
        raw_redis.lpush("queue:low", "job")
        thread.join(10)
        woke_after = time.monotonic() - pushed_at
        leader.taken()
        if woke_after < 0.05:
            return
    pytest.fail(f"the last of five took {woke_after * 1000:.0f} ms")


def test_any_thread_may_end_the_sleep(leader, raw_redis):
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    leader.waiting.wake()
    thread.join(10)
    assert not thread.is_alive()
    assert not leader.waiting.asleep
    assert [pop.queue for pop in leader.waiting.pops.waiting] == ["low"], "the next round trip calls it back"


def test_it_does_not_sleep_if_work_arrived_first(leader, raw_redis):
    """`asleep` is set before the last check: a sender sees it, or is seen."""
    seen = []

    def may_sleep() -> bool:
        seen.append(leader.waiting.asleep)
        return False

    leader.waiting.sleep(OWNER, ["low"], may_sleep)
    assert seen == [True]
    assert blocked(raw_redis) == 0


def test_a_wake_up_before_the_sleep_is_not_lost(leader):
    leader.waiting.wake()
    thread = leader.sleep("low")
    thread.join(10)
    assert not thread.is_alive()


def test_many_wake_ups_do_not_block_their_senders(leader):
    for _ in range(100_000):
        leader.waiting.wake()


def test_a_pop_that_ends_by_itself_is_renewed(leader, raw_redis):
    """It cannot see a fence, so it must not wait for ever (rule 2)."""
    leader.waiting._pop_seconds = 0.05
    thread = leader.sleep("low")
    before = leader.waiting.stirred
    wait_for(lambda: raw_redis.info("commandstats").get("cmdstat_blmove", {}).get("calls", 0) >= 3)
    wait_for(lambda: leader.waiting.stirred > before, what="that it turns is seen")
    assert thread.is_alive()
    raw_redis.lpush("queue:low", "job")
    thread.join(10)
    assert leader.taken() == [b"job"]


def test_a_pop_waits_at_most_two_fifths_of_a_life():
    redis = Redis(RedisSettings(), size=1)
    for life, seconds in ((45.0, 18.0), (10.0, 4.0), (600.0, 25.0)):
        waiting = ServerWait(redis, life)
        assert waiting._pop_seconds == seconds
        assert waiting.straggling_seconds == seconds + 2
        waiting.close()


def test_a_lost_pop_ends_the_sleep_and_is_reported_once(leader, raw_redis):
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    (client,) = [found for found in raw_redis.client_list() if found["cmd"] == "blmove"]
    raw_redis.client_kill_filter(_id=client["id"])
    thread.join(10)
    assert leader.waiting.lost_a_pop()
    assert not leader.waiting.lost_a_pop()


def test_an_overdue_pop_ends_the_sleep(leader, raw_redis, monkeypatch):
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    leader.waiting.wake()
    thread.join(10)
    (pop,) = leader.waiting.pops.waiting
    pop.until = time.monotonic() + 0.05
    thread = leader.sleep("low")
    thread.join(10)
    assert leader.waiting.lost_a_pop()


# ---------------------------------------------------------------------------------- refused, polled


def test_a_full_server_that_refuses_blocking_pops_is_polled_until_it_recovers(make_server, monkeypatch):
    """BLMOVE is refused under maxmemory; the claim script is not (rule 16)."""
    monkeypatch.setattr(server_wait, "REFUSED_SECONDS", 0.2)
    server = make_server(kind="valkey")
    leader = make(server.url)
    with redis_py.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        leader.waiting.sleep(OWNER, ["low"], always)
        assert not leader.waiting._may_block()
        for _ in range(3):
            leader.waiting.sleep(OWNER, ["low"], always)  # each ends on its own
        assert blocked(client) == 0
        client.config_set("maxmemory", 0)
        wait_for(leader.waiting._may_block)
        thread = leader.sleep("low")
        wait_for(lambda: blocked(client) == 1)
        leader.waiting.wake()
        thread.join(10)
    leader.close()


def test_beyond_sixteen_queues_the_rest_is_checked_each_second(leader, raw_redis, monkeypatch):
    monkeypatch.setattr(server_wait, "CHECK_SECONDS", 0.05)
    thread = leader.sleep(*MANY)
    wait_for(lambda: blocked(raw_redis) == MAX_POPS)
    wait_for(lambda: raw_redis.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0) >= 3)
    assert thread.is_alive()
    raw_redis.lpush(f"queue:{MANY[-1]}", "job")
    thread.join(10)
    assert not thread.is_alive()
    assert leader.taken() == []
    assert raw_redis.llen(f"queue:{MANY[-1]}") == 1, "to be claimed"


def test_a_queue_that_is_no_list_ends_the_sleep(leader, raw_redis, monkeypatch):
    """The claim reads the others, and reports this one."""
    monkeypatch.setattr(server_wait, "CHECK_SECONDS", 0.05)
    raw_redis.set(f"queue:{MANY[-1]}", "no list")
    thread = leader.sleep(*MANY)
    thread.join(10)
    assert not thread.is_alive()
    assert leader.errors == []


def test_pops_block_on_the_queues_that_were_busiest(monkeypatch):
    busiest = BusiestQueues()
    assert busiest.choose(MANY) == MANY[:MAX_POPS], "the most important ones"
    busiest.note([MANY[-1]] * 5 + [MANY[3]])
    assert busiest.choose(MANY) == MANY[:MAX_POPS], "kept for a while"
    monkeypatch.setattr(server_wait, "CHOOSE_SECONDS", 0.0)
    busiest._choose_at = 0.0
    assert busiest.choose(MANY)[:2] == [MANY[-1], MANY[3]]
    for _ in range(3):
        chosen = busiest.choose(MANY)
    assert chosen == MANY[:MAX_POPS], "old counts fade"
    busiest.note([MANY[-1]] * 5)
    busiest._choose_at = time.monotonic() + 60
    open_queues = [queue for queue in MANY if queue != MANY[0]]
    assert MANY[-1] in busiest.choose(open_queues), "a paused queue is replaced at once"


def test_the_queue_of_each_job_is_counted_only_with_many_queues(leader, raw_redis):
    unit = UnitOfWork("low", b"", OWNER, 0.0)
    leader.waiting.found([unit])
    for queues in (MANY, ["low"]):
        raw_redis.lpush(f"queue:{queues[0]}", "job")
        leader.sleep(*queues).join(10)
        leader.waiting.found([unit])
    leader.taken()
    assert leader.waiting._busiest is None


def test_polling_begins_after_a_millisecond_and_slows_down(limited, monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(limited.waiting, "_select", pauses.append)
    for _ in range(9):
        limited.waiting.sleep(OWNER, ["low"], always)
    assert pauses == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.05]
    limited.waiting.found([])
    limited.waiting.sleep(OWNER, ["low"], always)
    limited.waiting.sleep(OWNER, [], always)
    assert pauses[9:] == [0.001, server_wait.CHECK_SECONDS], "and each second if all queues are paused"


def test_a_sleep_may_be_limited(leader):
    leader.waiting.sleep(OWNER, ["low"], always, max_seconds=0.05)
    assert [pop.queue for pop in leader.waiting.pops.waiting] == ["low"]


def test_a_revoked_permission_ends_blocking(leader, redis_url, raw_redis):
    raw_redis.execute_command("ACL", "SETUSER", "fallen", "on", ">secret", "~*", "+@all")
    fallen = make(redis_url, username="fallen", password="secret")
    thread = fallen.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.execute_command("ACL", "SETUSER", "fallen", "-client|unblock")
    fallen.waiting.wake()
    thread.join(10)
    pops = fallen.waiting.pops
    pops.called_back(fallen.redis.pipeline(pops.unblocks(), raise_errors=False))
    assert fallen.waiting.lost_a_pop()
    assert fallen.waiting.strategy() is WaitStrategy.POLLED
    fallen.close()
    raw_redis.execute_command("ACL", "DELUSER", "fallen")


# --------------------------------------------------------------------------------- beginning and end


def test_rebuilding_makes_new_connections(leader, raw_redis):
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    (before,) = [found["id"] for found in raw_redis.client_list() if found["cmd"] == "blmove"]
    leader.waiting.rebuild()
    thread.join(10)
    thread = leader.sleep("low")
    wait_for(lambda: leader.waiting.pops.waiting and not leader.waiting._rebuilding)
    wait_for(lambda: before not in [found["id"] for found in raw_redis.client_list()])
    leader.waiting.wake()
    thread.join(10)


def test_a_lost_server_ends_the_sleep_with_an_error(make_server):
    server = make_server()
    leader = make(server.url)
    thread = leader.sleep("low")
    with redis_py.Redis.from_url(server.url) as client:
        wait_for(lambda: blocked(client) == 1)
    server.stop()
    thread.join(10)
    if not leader.errors:  # the pop was the first to notice
        assert leader.waiting.lost_a_pop()
        with pytest.raises(RedisUnavailable):
            leader.waiting.sleep(OWNER, ["low"], always)
    assert not leader.waiting.asleep
    leader.close()


def test_a_late_wake_up_does_not_write_into_a_reused_descriptor(redis_url, tmp_path):
    """The number of a closed pipe is soon that of something else."""
    leader = make(redis_url)
    numbers = {leader.waiting._reading, leader.waiting._writing}
    leader.close()
    files = [(tmp_path / str(number)).open("wb") for number in range(8)]
    assert numbers & {file.fileno() for file in files}, "one of them has the number now"
    leader.waiting.wake()
    for file in files:
        assert os.fstat(file.fileno()).st_size == 0
        file.close()
