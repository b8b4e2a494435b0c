"""How a leader sleeps: blocked, tracked or polled, and everything that ends its sleep."""

from __future__ import annotations

import logging
import os
import threading
import time

import pytest
import redis as redis_py

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage import tracking
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.tracking import Tracking
from offsider.storage.working import NOT_PAUSED, Owner
from offsider.worker.fetch import server_wait
from offsider.worker.fetch.server_wait import MOST_POPS, ServerWait, WaitStrategy
from tests.waiting import wait_for

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
MANY = [f"q{number}" for number in range(MOST_POPS + 2)]
LIFE = 45.0


def always() -> bool:
    return True


class Leader:
    """A thread that sleeps; `slept` counts its wake-ups."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.waiting = ServerWait(redis, LIFE)
        self.errors: list[BaseException] = []

    def sleep(self, *queues: str, paused: frozenset[str] = NOT_PAUSED) -> threading.Thread:
        """Sleep in a thread of its own. The first sleep only enables pause notifications."""

        def sleeper() -> None:
            try:
                self.waiting.sleep(OWNER, queues, paused, always)
            except (RedisRefused, RedisUnavailable) as error:
                self.errors.append(error)

        if not self.waiting.knows_pauses:
            self.waiting.sleep(OWNER, queues, paused, lambda: False)
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


@pytest.fixture
def blind(limited, monkeypatch):
    """A server, besides, that tracks nothing."""
    monkeypatch.setattr(Tracking, "open", refuse)
    return limited


def refuse(*_: object) -> None:
    raise RedisRefused("unknown subcommand TRACKING", code="ERR")


def blocked(client) -> int:
    return client.info("clients")["blocked_clients"]


# ------------------------------------------------------------------------------------------- the ways


def test_the_first_strategy_that_the_server_allows_is_used(leader):
    assert leader.waiting.strategy() is WaitStrategy.BLOCKED


def test_without_permission_to_block_changes_are_tracked(limited):
    assert limited.waiting.strategy() is WaitStrategy.TRACKED


def test_without_both_permissions_the_server_is_polled(blind):
    assert blind.waiting.strategy() is WaitStrategy.POLLED


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
        assert answers == [WaitStrategy.TRACKED] * 4
        limited.waiting._give_up_connections()


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

    leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, may_sleep)
    leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, may_sleep)
    assert seen == [True]
    assert blocked(raw_redis) == 0


def test_a_wake_up_before_the_sleep_is_not_lost(leader):
    leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
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


def test_paused_queues_are_polled_each_second_instead_of_waited_on(leader, raw_redis, monkeypatch):
    monkeypatch.setattr(server_wait, "PAUSED_SECONDS", 0.05)
    thread = leader.sleep("high", "low", paused=frozenset({"low"}))
    thread.join(10)
    assert not thread.is_alive()
    assert [pop.queue for pop in leader.waiting.pops.waiting] == ["high"]


def test_a_pause_is_noticed_at_once(leader, raw_redis):
    """A job that a pop moves after that has to be found by a claim (rule 17)."""
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    assert leader.waiting.knows_pauses
    raw_redis.sadd("paused", "low")
    thread.join(10)
    assert not leader.waiting.knows_pauses


def test_a_sleeping_leader_proves_that_it_still_hears_of_pauses(leader, raw_redis, monkeypatch):
    monkeypatch.setattr(tracking, "TRUSTED_SECONDS", 0.0)
    leader.waiting._pop_seconds = 0.05
    thread = leader.sleep("low")
    raw_redis.config_resetstat()
    wait_for(lambda: raw_redis.info("commandstats").get("cmdstat_ping", {}).get("calls", 0) >= 3)
    assert thread.is_alive()
    assert "cmdstat_exists" not in raw_redis.info("commandstats")
    leader.waiting.wake()
    thread.join(10)
    assert leader.waiting.knows_pauses


def test_without_pause_notifications_pauses_are_unknown(leader, raw_redis, monkeypatch):
    monkeypatch.setattr(Tracking, "open", refuse)
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    raw_redis.lpush("queue:low", "job")
    thread.join(10)
    assert not leader.waiting.knows_pauses


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


# ------------------------------------------------------------------------- refused, tracked, polled


def test_a_full_server_that_refuses_blocking_pops_is_polled_until_it_recovers(make_server, monkeypatch):
    """BLMOVE is refused under maxmemory; the claim script is not (rule 16)."""
    monkeypatch.setattr(server_wait, "REFUSED_SECONDS", 0.2)
    server = make_server(kind="valkey")
    leader = make(server.url)
    leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
    with redis_py.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
        assert leader.waiting._divided(["low"]) == ((), ["low"])
        for _ in range(3):
            leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)  # each ends on its own
        assert blocked(client) == 0
        client.config_set("maxmemory", 0)
        wait_for(lambda: leader.waiting._divided(["low"])[0])
        thread = leader.sleep("low")
        wait_for(lambda: blocked(client) == 1)
        leader.waiting.wake()
        thread.join(10)
    leader.close()


def test_beyond_sixteen_queues_the_rest_is_tracked(leader, raw_redis):
    thread = leader.sleep(*MANY)
    wait_for(lambda: blocked(raw_redis) == MOST_POPS)
    raw_redis.lpush(f"queue:{MANY[-1]}", "job")
    thread.join(10)
    assert not thread.is_alive()
    assert leader.taken() == []
    assert raw_redis.llen(f"queue:{MANY[-1]}") == 1, "to be claimed"


def test_a_tracked_leader_wakes_for_each_push(limited, raw_redis):
    for job in ("first", "second"):
        thread = limited.sleep("low")
        wait_for(lambda: raw_redis.info("stats")["tracking_total_keys"] == 1)
        raw_redis.lpush("queue:low", job)
        thread.join(10)
        assert not thread.is_alive()
        raw_redis.delete("queue:low")


def test_a_job_pushed_before_the_watch_ends_the_sleep(limited, raw_redis):
    raw_redis.lpush("queue:low", "job")
    thread = limited.sleep("low")
    thread.join(10)
    assert not thread.is_alive()


def test_a_server_that_stops_sending_notifications_is_polled(limited, raw_redis, monkeypatch, caplog):
    thread = limited.sleep("low")
    wait_for(lambda: raw_redis.info("stats")["tracking_total_keys"] == 1)
    limited.waiting.wake()
    thread.join(10)
    monkeypatch.setattr(Tracking, "watch_lists", refuse)
    with caplog.at_level(logging.WARNING, "offsider"):
        limited.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
        limited.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)  # ends on its own
    assert caplog.text.count("the server refuses CLIENT TRACKING") == 1


def test_polling_begins_after_a_millisecond_and_slows_down(blind):
    assert blind.waiting.strategy() is WaitStrategy.POLLED
    pauses = [blind.waiting._longest(["low"], some_paused=False) for _ in range(9)]
    assert pauses == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.05]
    blind.waiting.found()
    assert blind.waiting._longest(["low"], some_paused=False) == 0.001


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
    assert fallen.waiting.strategy() is WaitStrategy.TRACKED
    fallen.close()
    raw_redis.execute_command("ACL", "DELUSER", "fallen")


# --------------------------------------------------------------------------------- beginning and end


def test_rebuilding_makes_new_connections(leader, raw_redis):
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    (before,) = [found["id"] for found in raw_redis.client_list() if found["cmd"] == "blmove"]
    leader.waiting.rebuild()
    thread.join(10)
    leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
    thread = leader.sleep("low")
    wait_for(lambda: blocked(raw_redis) == 1)
    assert before not in [found["id"] for found in raw_redis.client_list()]
    leader.waiting.wake()
    thread.join(10)


def test_a_lost_server_ends_the_sleep_with_an_error(make_server):
    server = make_server()
    leader = make(server.url)
    leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
    thread = leader.sleep("low")
    with redis_py.Redis.from_url(server.url) as client:
        wait_for(lambda: blocked(client) == 1)
    server.stop()
    thread.join(10)
    if not leader.errors:  # the pop was the first to notice
        assert leader.waiting.lost_a_pop()
        with pytest.raises(RedisUnavailable):
            leader.waiting.sleep(OWNER, ["low"], NOT_PAUSED, always)
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
