"""The keeper sends heartbeats for workers and requeues the jobs of dead ones, despite Redis outages (rule 10)."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.core.payload import decode
from offsider.core.series import Series
from offsider.runtime.events import JobReclaimed
from offsider.storage import owners
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.storage.working import Owner, claim
from offsider.worker.alive.keeper import keeping
from offsider.worker.alive.keeper.channel import Channel
from offsider.worker.alive.keeper.keeping import Keeper
from offsider.worker.alive.keeper.messages import Counted, Orders, Report, encode
from offsider.worker.alive.keeper.process_watch import Program
from offsider.worker.alive.sweeper import Sweeper
from tests.process.stored import push
from tests.waiting import wait_for

LIFE_MS = 9000


class Process:
    """A process that a report may be about."""

    def __init__(self, redis_settings: RedisSettings) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.lists = Lists(f"host:{self.process.pid}:aaaaaaaaaaaa", {"default": ("default",)})
        self.redis = redis_settings

    def report(self, state: str = "ready", **changes) -> bytes:
        given = {"lists": self.lists, "life_ms": LIFE_MS, "redis": self.redis, "state": state, **changes}
        return encode(Report(self.process.pid, **given))

    @property
    def alive_key(self) -> str:
        return f"offsider:alive:{self.lists.identity}"

    @property
    def working(self) -> str:
        return f"offsider:working:{self.lists.identity}:default:default"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


@pytest.fixture
def channel():
    made = Channel()
    yield made
    made.close()


@pytest.fixture
def worker(worker_config):
    made = Process(RedisSettings(url=worker_config.redis.url))
    yield made
    made.end()


@pytest.fixture
def starter():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def heard():
    return []


@pytest.fixture
def keeper(worker_config, channel, starter, heard):
    return Keeper(worker_config, channel, starter.pid, on_no_more=lambda: heard.append("no more"))


@pytest.fixture
def proxied_keeper(proxied_config, channel, starter):
    return Keeper(proxied_config, channel, starter.pid)


def claim_jobs(parts_redis, worker, count: int) -> None:
    owners.beat(parts_redis, worker.lists, LIFE_MS)
    assert len(claim(parts_redis, Owner(worker.lists.identity, "default"), ["default"], count)) == count


def test_it_beats_for_a_worker_that_has_registered_itself(keeper, worker, parts, raw_redis):
    owners.beat(parts.redis, worker.lists, 1000)
    keeper._channel.send(worker.report())
    assert keeper.run_once()
    assert raw_redis.pttl(worker.alive_key) > 8000
    assert keeper.health.ready() == []
    beaten = keeper.health.workers[worker.process.pid].beaten_at
    keeper.run_once()
    assert keeper.health.workers[worker.process.pid].beaten_at == beaten, "a ninth of the life has not passed"
    assert 0 < keeper._pause_seconds() <= LIFE_MS / 1000 / 9


def test_it_does_not_beat_while_the_worker_does(keeper, worker, parts, raw_redis, monkeypatch):
    monkeypatch.setattr(keeping, "POLL_SECONDS", 60)
    owners.beat(parts.redis, worker.lists, 1000)
    keeper._channel.send(worker.report(beaten=True))
    keeper.run_once()
    assert raw_redis.pttl(worker.alive_key) <= 1000
    assert keeper.health.ready() == [], "the beat of the worker counts"
    assert LIFE_MS / 1000 / 9 < keeper._pause_seconds() <= 2 * LIFE_MS / 1000 / 9


def test_it_beats_for_a_worker_that_has_missed_a_beat(keeper, worker, parts, raw_redis, monkeypatch):
    monkeypatch.setattr(keeping, "BEATS_PER_LIFE", 9000)
    owners.beat(parts.redis, worker.lists, 1000)
    keeper._channel.send(worker.report(beaten=True))
    keeper._channel.send(worker.report())  # it has failed to beat, or its state has changed
    wait_for(lambda: keeper.run_once() and raw_redis.pttl(worker.alive_key) > 8000)


def test_it_beats_at_once_under_a_new_identity(keeper, worker, parts, raw_redis):
    owners.beat(parts.redis, worker.lists, LIFE_MS)
    keeper._channel.send(worker.report())
    keeper.run_once()
    renewed = Lists(f"host:{worker.process.pid}:bbbbbbbbbbbb", worker.lists.queues)
    owners.beat(parts.redis, renewed, 1000)
    keeper._channel.send(worker.report(lists=renewed))
    keeper.run_once()
    assert raw_redis.pttl(f"offsider:alive:{renewed.identity}") > 8000


def test_the_jobs_of_a_dead_worker_are_back_at_once(keeper, worker, parts, raw_redis, caplog):
    push(raw_redis, "Short", 1)
    push(raw_redis, "Short", 2)
    claim_jobs(parts.redis, worker, 2)
    keeper._channel.send(worker.report())
    keeper.run_once()
    worker.end()
    with caplog.at_level(logging.WARNING, "offsider"):
        keeper.run_once()
    assert raw_redis.llen("queue:default") == 2
    assert not raw_redis.exists(worker.working, worker.alive_key)
    assert raw_redis.exists(f"offsider:fenced:{worker.lists.identity}")
    assert "is dead; requeued its 2 jobs" in caplog.text
    named = [record.fields for record in caplog.records if record.getMessage().startswith("requeued Short JID-")]
    assert {(fields["jid"], fields["class"], fields["queue"]) for fields in named} == {
        (job["jid"], "Short", "default") for job in map(decode, raw_redis.lrange("queue:default", 0, -1))
    }
    assert keeper.health.workers == {}


def test_jobs_requeued_by_a_keeper_are_announced_once_by_a_live_worker(keeper, worker, parts, raw_redis):
    push(raw_redis, "Short", 1)
    claim_jobs(parts.redis, worker, 1)
    keeper._channel.send(worker.report())
    keeper.run_once()
    worker.end()
    keeper.run_once()
    Sweeper(parts.config, parts.redis, parts.ownership).tick()
    assert raw_redis.llen("offsider:rescued") == 1, "nothing listens here"
    reported = []
    parts.config.on("job_reclaimed", reported.append)
    sweeper = Sweeper(parts.config, parts.redis, parts.ownership)
    sweeper.tick()
    sweeper.tick()
    (raw,) = raw_redis.lrange("queue:default", 0, -1)
    assert reported == [JobReclaimed(raw, "default", worker.lists.identity, 1)]


def test_jobs_requeued_by_a_keeper_are_recorded_after_an_outage(keeper, worker, parts, raw_redis, monkeypatch):
    push(raw_redis, "Short", 1)
    claim_jobs(parts.redis, worker, 1)
    keeper._channel.send(worker.report())
    keeper.run_once()
    worker.end()

    def fail(*_):
        raise RedisUnavailable("a test")

    with monkeypatch.context() as patch:
        patch.setattr(keeping.rescued, "note", fail)
        keeper.run_once()
    assert not raw_redis.exists("offsider:rescued")
    keeper._dead[0].due = 0.0
    keeper.run_once()
    assert raw_redis.llen("offsider:rescued") == 1


@pytest.mark.parametrize("strikes", [(3, 1), (4, 0), (0, 0)], ids=str)
def test_the_keeper_leaves_a_poison_pill_to_a_worker(keeper, worker, parts, raw_redis, strikes):
    """A job that was alone with its process when that died, for the third time."""
    max_strikes, left_for_others = strikes
    jid = push(raw_redis, "Short", 1)
    raw_redis.zadd(f"offsider:strikes:{jid}", {f"host:{number}:aaaaaaaaaaaa": time.time() for number in range(2)})
    claim_jobs(parts.redis, worker, 1)
    keeper._channel.send(worker.report(max_strikes=max_strikes))
    keeper.run_once()
    worker.end()
    keeper.run_once()
    assert raw_redis.llen(worker.working) == left_for_others
    assert raw_redis.llen("queue:default") == 1 - left_for_others
    assert not raw_redis.exists("dead")


def test_jobs_handed_to_a_dead_worker_later_are_requeued_too(keeper, worker, parts, raw_redis):
    claim_jobs(parts.redis, worker, 0)
    keeper._channel.send(worker.report())
    keeper.run_once()
    worker.end()
    keeper.run_once()
    push(raw_redis, "Short", 1)
    raw_redis.lmove("queue:default", worker.working, "RIGHT", "LEFT")  # a pop that was parked
    wait_for(lambda: keeper.run_once() and raw_redis.llen("queue:default") == 1, 5)


def test_lists_are_read_from_the_registry(keeper, worker, parts, raw_redis):
    """The worker has begun to serve another queue, and died before the keeper was notified."""
    keeper._channel.send(worker.report())
    keeper.run_once()
    wider = Lists(worker.lists.identity, {"default": ("default", "late")})
    owners.beat(parts.redis, wider, LIFE_MS)
    push(raw_redis, "Short", 1, queue="late")
    raw_redis.lmove("queue:late", f"offsider:working:{worker.lists.identity}:default:late", "RIGHT", "LEFT")
    worker.end()
    keeper.run_once()
    assert raw_redis.llen("queue:late") == 1


def test_a_worker_that_has_left_is_not_fenced_nor_beaten_for(keeper, worker, parts, raw_redis):
    keeper._channel.send(worker.report())
    keeper.run_once()
    keeper._channel.send(worker.report("left"))
    worker.end()
    keeper.run_once()
    assert raw_redis.keys("offsider:*") == []


def test_the_last_message_of_a_worker_counts_even_if_its_end_is_seen_in_the_same_turn(keeper, worker, raw_redis):
    keeper._channel.send(worker.report())
    keeper._channel.send(worker.report("left"))
    worker.end()
    keeper.run_once()
    assert raw_redis.keys("offsider:fenced:*") == []


def test_a_beat_that_redis_does_not_take_is_tried_again(proxied_keeper, proxy, worker, parts, caplog):
    keeper = proxied_keeper
    owners.beat(parts.redis, worker.lists, LIFE_MS)
    keeper._channel.send(worker.report(redis=RedisSettings(url=proxy.url, socket_timeout_seconds=0.5)))
    proxy.refuse()
    with caplog.at_level(logging.WARNING, "offsider"):
        for _ in range(3):
            keeper.run_once()
            keeper._kept[worker.process.pid].beat_at = 0.0
    assert [record.message.count("cannot") or 1 for record in caplog.records] == [1], "one report, not one a beat"
    assert keeper.health.ready() != []
    proxy.accept()
    wait_for(lambda: keeper.run_once() and not keeper.health.ready(), 10)


def test_jobs_of_a_worker_that_dies_during_an_outage_are_requeued_after_it(
    proxied_keeper, proxy, worker, parts, raw_redis
):
    keeper = proxied_keeper
    push(raw_redis, "Short", 1)
    claim_jobs(parts.redis, worker, 1)
    keeper._channel.send(worker.report(redis=RedisSettings(url=proxy.url, socket_timeout_seconds=0.5)))
    keeper.run_once()
    proxy.refuse()
    worker.end()
    keeper.run_once()
    assert raw_redis.llen("queue:default") == 0
    proxy.accept()
    wait_for(lambda: keeper.run_once() and raw_redis.llen("queue:default"), 10)


def test_after_two_liveness_periods_the_keeper_leaves_a_dead_worker_to_others(proxied_keeper, proxy, worker, caplog):
    keeper = proxied_keeper
    keeper._channel.send(encode(Orders(no_more=True)))
    keeper._channel.send(worker.report(life_ms=1, redis=RedisSettings(url=proxy.url, socket_timeout_seconds=0.5)))
    proxy.refuse()
    keeper.run_once()
    worker.end()
    with caplog.at_level(logging.WARNING, "offsider"):
        wait_for(lambda: not keeper.run_once(), 10)
    assert "other workers will requeue its jobs" in caplog.text


def test_the_keeper_exits_with_its_starter_when_nothing_is_left_to_do(keeper, starter):
    assert keeper.run_once()
    starter.kill()
    starter.wait()
    assert not keeper.run_once()


def test_it_stays_for_workers_that_outlive_the_starter(keeper, starter, worker):
    keeper._channel.send(worker.report())
    starter.kill()
    starter.wait()
    assert keeper.run_once()
    keeper._channel.send(worker.report("left"))
    worker.end()
    assert not keeper.run_once()


def test_a_supervisor_announces_the_worker_count_and_the_last_worker(keeper):
    keeper._channel.send(encode(Orders(expected=3)))
    keeper._channel.send(b"nonsense")
    assert keeper.run_once()
    assert keeper.health.expected == 3
    keeper._channel.send(encode(Orders(expected=3, no_more=True)))
    assert not keeper.run_once()


def test_waiting_for_its_end_needs_no_second_check(keeper, heard, worker, parts, raw_redis):
    push(raw_redis, "Short", 1)
    claim_jobs(parts.redis, worker, 1)
    keeper._channel.send(worker.report())
    keeper.run_once()
    worker.end()
    assert keeper.run_once()
    for _ in range(2):
        keeper._channel.send(encode(Orders(no_more=True)))
    assert not keeper.run_once()
    assert heard == ["no more"]
    assert raw_redis.llen("queue:default") == 1


def test_counts_of_workers_are_summed_and_outlive_them(keeper, channel, worker):
    channel.send(worker.report())
    for _ in range(2):
        channel.send(encode(Counted(worker.process.pid, [Series({"class": "A"}, processed=2)], 1, 5)))
    keeper.run_once()
    assert [series.processed for series in keeper.totals.series()] == [4]
    assert (keeper.totals.busy, keeper.totals.concurrency) == (1, 5)
    worker.end()
    wait_for(lambda: keeper.run_once() and keeper.totals.concurrency == 0)
    assert [series.processed for series in keeper.totals.series()] == [4]


def test_it_sleeps_until_something_happens(keeper, worker, parts):
    """Only polling detects an exec; the end of a process wakes the keeper immediately."""
    owners.beat(parts.redis, worker.lists, LIFE_MS)
    keeper._channel.send(worker.report(life_ms=900_000))
    keeper.run_once()
    assert 0.4 < keeper._pause_seconds() <= 0.5
    started = time.monotonic()
    worker.end()
    keeper._selector.select(20)
    assert time.monotonic() - started < 5


def test_a_worker_that_execs_another_program_is_dead(keeper, parts, raw_redis, worker, caplog):
    push(raw_redis, "Short", 1)
    text = "import os; input(); os.execv('/bin/cat', ['cat'])"
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE) as process:
        lists = Lists(f"host:{process.pid}:aaaaaaaaaaaa", {"default": ("default",)})
        owners.beat(parts.redis, lists, LIFE_MS)
        claim(parts.redis, Owner(lists.identity, "default"), ["default"], 1)
        keeper._channel.send(encode(Report(process.pid, lists, LIFE_MS, worker.redis)))
        keeper.run_once()
        assert raw_redis.llen("queue:default") == 0
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(lambda: keeper.run_once() and raw_redis.llen("queue:default") == 1)
        assert process.poll() is None
        process.stdin.close()
    assert f"{lists.identity} replaced its program (os.execv)" in caplog.text
    assert keeper.health.workers == {}


def test_an_idle_keeper_sleeps_long_if_exec_cannot_be_detected(monkeypatch, keeper, worker, parts):
    monkeypatch.setattr(Program, "watched", False)
    owners.beat(parts.redis, worker.lists, LIFE_MS)
    keeper._channel.send(worker.report(life_ms=900_000))
    keeper.run_once()
    assert keeper._pause_seconds() > 50


def test_without_pidfds_it_polls_twice_a_second(monkeypatch, worker_config, channel, worker):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    keeper = Keeper(worker_config, channel, os.getpid())
    keeper._channel.send(worker.report())
    keeper.run_once()
    assert keeper._pause_seconds() <= 0.5
    keeper._channel.send(worker.report("left"))
    worker.end()
    keeper.run_once()
    assert keeper.health.workers == {}
