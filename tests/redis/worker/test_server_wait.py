"""How a leader sleeps, blocked or polling, and everything that ends its sleep."""

from __future__ import annotations

import threading
import time

import pytest
import redis as redis_py

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.working import Owner
from offsider.worker.fetch import server_wait
from offsider.worker.fetch.server_wait import MAX_CLAIM_QUEUES, MAX_POPS, QueueChoice, ServerWait, WaitStrategy
from tests.waiting import wait_for

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
ALL_NAMED = MAX_POPS + MAX_CLAIM_QUEUES
MANY = [f"q{number}" for number in range(ALL_NAMED + 2)]
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


def test_a_pop_waits_at_most_two_fifths_of_a_life():
    redis = Redis(RedisSettings(), size=1)
    for life, seconds in ((45.0, 18.0), (10.0, 4.0), (600.0, 25.0)):
        waiting = ServerWait(redis, life)
        assert waiting._pop_seconds == seconds
        assert waiting.lost_pop_seconds == seconds + 2
        waiting.close()


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
    wait_for(lambda: raw_redis.info("commandstats").get("cmdstat_llen", {}).get("calls", 0) >= 3)
    assert thread.is_alive()
    raw_redis.lpush(f"queue:{MANY[-1]}", "job")
    thread.join(10)
    assert not thread.is_alive()
    assert leader.taken() == []
    assert raw_redis.llen(f"queue:{MANY[-1]}") == 1, "to be claimed"


def test_pops_block_on_the_queues_that_were_busiest(leader, monkeypatch):
    busiest = QueueChoice(leader.redis)
    assert busiest.to_block_on(MANY) == MANY[:MAX_POPS], "the most important ones"
    busiest.note_jobs([MANY[-1]] * 5 + [MANY[3]])
    assert busiest.to_block_on(MANY) == MANY[:MAX_POPS], "kept for a while"
    monkeypatch.setattr(server_wait, "CHOOSE_SECONDS", 0.0)
    busiest._choose_at = 0.0
    assert busiest.to_block_on(MANY)[:2] == [MANY[-1], MANY[3]]
    for _ in range(3):
        chosen = busiest.to_block_on(MANY)
    assert chosen == MANY[:MAX_POPS], "old counts fade"
    busiest.note_jobs([MANY[-1]] * 5)
    busiest._choose_at = time.monotonic() + 60
    open_queues = [queue for queue in MANY if queue != MANY[0]]
    assert MANY[-1] in busiest.to_block_on(open_queues), "a paused queue is replaced at once"


def test_a_request_names_only_queues_that_may_have_jobs(leader, raw_redis):
    choice = QueueChoice(leader.redis)
    assert choice.to_claim_from(MANY[:ALL_NAMED], ()) == MANY[:ALL_NAMED], "up to 48 queues are all named"
    raw_redis.lpush(f"queue:{MANY[-1]}", "job")
    raw_redis.lpush(f"queue:{MANY[-2]}", "job")
    assert choice.to_claim_from(MANY, [MANY[0]]) == [MANY[0], *MANY[-2:]]
    choice.note_claimed(MANY[-2:], [(MANY[-1], b"job")], limit=1)
    assert choice.to_claim_from(MANY, ()) == MANY[-1:], "the other was empty"
    choice.note_claimed(MANY[-1:], [], limit=1)
    assert choice.to_claim_from(MANY, ()) == []
    choice.to_block_on(MANY)
    choice.check_at = 0.0
    assert choice.to_claim_from(MANY, ()) == [*MANY[:MAX_POPS], *MANY[-2:]], "a second later, all are counted"


def test_a_request_names_a_few_of_many_queues_with_jobs_the_most_important_ones(leader):
    choice = QueueChoice(leader.redis)
    order = [f"q{number}" for number in range(100)]
    choice.check_at, choice.with_jobs = time.monotonic() + 60, set(order)
    assert choice.to_claim_from(order, ["q99"]) == [*order[:MAX_CLAIM_QUEUES], "q99"]


def test_polling_begins_after_a_millisecond_and_slows_down(limited, monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(limited.waiting, "_select", pauses.append)
    for _ in range(9):
        limited.waiting.sleep(OWNER, ["low"], always)
    assert pauses == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.05]
    limited.waiting.found([])
    limited.waiting.sleep(OWNER, MANY, always)
    assert limited.waiting.choice.to_claim_from(MANY, ()) == MANY[:MAX_POPS], "named without a count"
    limited.waiting.sleep(OWNER, [], always)
    assert pauses[9:] == [0.001, server_wait.CHECK_SECONDS], "and each second if all queues are paused"


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
