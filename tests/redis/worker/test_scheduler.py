"""Due jobs move to their queues, each exactly once, and nothing blocks the rest (rules 13, 22, 23)."""

from __future__ import annotations

import json
import logging
import threading
import time
import tracemalloc

import pytest

from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import MalformedPayload
from offsider.core.malformed import unwrap
from offsider.core.payload import decode, encode
from offsider.storage.places import MOVE
from offsider.worker import scheduler as module
from offsider.worker.scheduler import LEASE_SECONDS, POLL_SECONDS, SPREAD_SECONDS, Scheduler
from tests.middleware import returning
from tests.snapshot import snapshot
from tests.tagged import client_of
from tests.waiting import wait_for

LONG_AGO = 1_000_000_000.0


def payload(number: int = 1, **extra) -> bytes:
    return encode(
        {"class": "HardJob", "args": [number], "jid": f"{number:024x}", "queue": "low", "retry": True} | extra
    )


class Scheduling:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.errors: list[tuple[BaseException, dict[str, object]]] = []
        config.error_handlers.append(lambda error, context: self.errors.append((error, dict(context))))
        self.redis = Installation.of(config).make_redis(2)
        self.scheduler = Scheduler(config, self.redis, Client(config, self.redis))
        self.tick = self.scheduler.tick

    def close(self) -> None:
        self.redis.close()


@pytest.fixture
def scheduling(worker_config):
    made = []

    def make(config=worker_config) -> Scheduling:
        made.append(Scheduling(config))
        return made[-1]

    yield make
    for scheduling in made:
        scheduling.close()


@pytest.fixture
def running(scheduling):
    """Schedulers that run as services until the test ends."""
    started = []

    def run(config) -> Scheduling:
        one = scheduling(config)
        one.scheduler.start()
        started.append(one.scheduler)
        return one

    yield run
    for scheduler in started:
        scheduler.stop()
    assert all(scheduler.join(10) for scheduler in started)


def holder_of(client) -> bytes:
    """Who has the lease."""
    return (client.get("offsider:schedule") or b"").partition(b" ")[0]


def name_of(one: Scheduling) -> bytes:
    return one.scheduler._name.encode()


def moved(client, queue: str = "low") -> list[dict]:
    return [decode(raw) for raw in reversed(client.lrange(f"queue:{queue}", 0, -1))]


def jobs_in(client) -> dict[str, object]:
    """All of Redis but the lease."""
    return {key: value for key, value in snapshot(client).items() if not key.startswith("offsider:")}


def now(client) -> float:
    seconds, micros = client.time()
    return seconds + micros / 1e6


# -------------------------------------------------------------------------------------- moving


@pytest.mark.parametrize("where", ["schedule", "retry"])
def test_a_due_job_moves_with_the_time_of_its_enqueueing(scheduling, raw_redis, where):
    raw_redis.zadd(where, {payload(foreign={"x": 2**70}): LONG_AGO})
    scheduling().tick()
    (job,) = moved(raw_redis)
    assert job.pop("enqueued_at") == pytest.approx(now(raw_redis) * 1000, abs=10_000)
    assert job == decode(payload(foreign={"x": 2**70}))
    assert set(jobs_in(raw_redis)) == {"queue:low", "queues"}


def test_the_server_decides_which_jobs_are_due(scheduling, raw_redis, worker_config):
    """A process whose clock is a day ahead must not run jobs a day early."""

    class Pipelined(type(worker_config.clock)):
        def now(self):
            return super().now() + 86_400

    worker_config.clock = Pipelined()
    raw_redis.zadd("schedule", {payload(1): now(raw_redis) + 3600, payload(2): LONG_AGO})
    scheduling().tick()
    assert [job["args"] for job in moved(raw_redis)] == [[2]]


def test_it_sleeps_to_the_next_score_for_at_most_a_second(scheduling, raw_redis):
    one = scheduling()
    assert one.tick() == POLL_SECONDS
    raw_redis.zadd("schedule", {payload(): now(raw_redis) + 3600})
    assert one.tick() == POLL_SECONDS
    raw_redis.zadd("retry", {payload(): now(raw_redis) + 0.5})
    assert 0 < one.tick() <= 0.5


def test_a_job_that_is_due_before_the_known_ones_is_found_within_a_second(running, raw_redis, worker_config):
    raw_redis.zadd("schedule", {payload(1): now(raw_redis) + 3600})
    running(worker_config)
    wait_for(lambda: holder_of(raw_redis))
    raw_redis.zadd("schedule", {payload(2): now(raw_redis) + 0.1})
    wait_for(lambda: [job["args"] for job in moved(raw_redis)] == [[2]])


def test_a_job_rescheduled_after_it_was_read_stays(scheduling, raw_redis, worker_config):
    """The bytes are equal, so only the score differs (rule 13)."""

    def edit(push):
        raw_redis.zadd("schedule", {payload(): 9e9})
        yield

    worker_config.client_middleware.add(edit)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    scheduling().tick()
    assert jobs_in(raw_redis) == {"schedule": {payload(): 9e9}}


def test_retries_and_the_schedule_both_progress_when_one_has_many(scheduling, raw_redis):
    raw_redis.zadd("retry", {payload(n, queue="retries"): LONG_AGO + n for n in range(350)})
    raw_redis.zadd("schedule", {payload(n): LONG_AGO + n for n in range(150)})
    one = scheduling()
    assert one.tick() == 0.0
    assert (raw_redis.llen("queue:retries"), raw_redis.llen("queue:low")) == (100, 100)
    while one.tick() == 0.0:
        pass
    assert [job["args"] for job in moved(raw_redis, "retries")] == [[n] for n in range(350)]
    assert [job["args"] for job in moved(raw_redis)] == [[n] for n in range(150)]


def test_ten_thousand_future_jobs_stay_in_redis(scheduling, raw_redis):
    """A worker's memory must not depend on how many jobs are scheduled."""
    one = scheduling()
    one.tick()
    raw_redis.zadd("schedule", {payload(n, note="x" * 1000): 9e9 + n for n in range(10_000)})
    tracemalloc.start()
    one.tick()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 500_000


# ------------------------------------------------------------------------------------ the lease


def test_one_at_a_time_moves(scheduling, raw_redis, worker_config):
    first, second = scheduling(), scheduling()
    first.tick()
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    assert 0 < second.tick() <= LEASE_SECONDS + SPREAD_SECONDS
    assert moved(raw_redis) == []
    first.tick()
    assert len(moved(raw_redis)) == 1
    assert holder_of(raw_redis) == name_of(first)


def test_a_stopped_holder_releases_its_lease(running, raw_redis, worker_config, scheduling):
    first = running(worker_config)
    wait_for(lambda: holder_of(raw_redis) == name_of(first))
    first.scheduler.stop()
    assert first.scheduler.join(10)
    assert not raw_redis.exists("offsider:schedule")


def test_the_lease_of_one_that_died_ends_by_itself(running, scheduling, raw_redis, worker_config, monkeypatch):
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.3)
    dead = scheduling()
    dead.tick()
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    alive = running(worker_config)
    wait_for(lambda: moved(raw_redis))
    assert holder_of(raw_redis) in {name_of(alive), b""}


@pytest.fixture
def long_lease(monkeypatch):
    """One that does not end while the machine is busy."""
    monkeypatch.setattr(module, "LEASE_SECONDS", 60.0)


def test_the_holder_renews_its_lease_before_it_ends(scheduling, raw_redis, monkeypatch, long_lease):
    one = scheduling()
    one.tick()
    raw_redis.pexpire("offsider:schedule", 20_000)
    later = time.monotonic() + 59
    monkeypatch.setattr(module.time, "monotonic", lambda: later)
    one.tick()
    assert raw_redis.pttl("offsider:schedule") > 30_000


@pytest.fixture
def backlog(scheduling, raw_redis, monkeypatch, long_lease):
    """A scheduler in the middle of three full batches, at a time when its lease must be renewed."""
    monkeypatch.setattr(module, "BATCH", 2)
    raw_redis.zadd("retry", {payload(number): LONG_AGO + number for number in range(6)})
    one = scheduling()
    assert one.tick() == 0
    later = time.monotonic() + 59
    monkeypatch.setattr(time, "monotonic", lambda: later)
    return one


def test_the_holder_renews_its_lease_while_it_drains_a_backlog(backlog, raw_redis):
    raw_redis.pexpire("offsider:schedule", 20_000)
    assert backlog.tick() == 0
    assert raw_redis.pttl("offsider:schedule") > 30_000
    assert len(moved(raw_redis)) == 4


def test_a_holder_that_lost_its_lease_leaves_the_backlog_to_the_new_one(backlog, raw_redis, scheduling):
    raw_redis.delete("offsider:schedule")
    second = scheduling()
    assert second.tick() == 0
    assert 0 < backlog.tick() <= module.LEASE_SECONDS + SPREAD_SECONDS
    assert len(moved(raw_redis)) == 4
    second.tick()
    assert [job["args"] for job in moved(raw_redis)] == [[number] for number in range(6)]


def test_an_idle_holder_sends_one_command_a_second_and_sees_a_new_job_at_the_next_one(scheduling, raw_redis):
    one = scheduling()
    one.tick()
    raw_redis.config_resetstat()
    assert one.tick() == POLL_SECONDS
    assert {name for name, stats in raw_redis.info("commandstats").items() if stats["calls"]} == {
        "cmdstat_config|resetstat",
        "cmdstat_exists",
    }
    for number, place in enumerate(("schedule", "retry")):
        raw_redis.zadd(place, {payload(): LONG_AGO})
        one.tick()
        assert len(moved(raw_redis)) == number + 1


# ---------------------------------------------------------------------------------- middleware


def test_middleware_runs_again_with_the_reason(scheduling, raw_redis, worker_config):
    reasons = []

    def watch(push):
        reasons.append((push.reason, push.payload["args"]))
        push.payload["trace"] = "t"
        yield

    worker_config.client_middleware.add(watch)
    raw_redis.zadd("schedule", {payload(1): LONG_AGO})
    raw_redis.zadd("retry", {payload(2): LONG_AGO})
    scheduling().tick()
    assert sorted(reasons) == [("retry", [2]), ("schedule", [1])]
    assert [job["trace"] for job in moved(raw_redis)] == ["t", "t"]


def test_middleware_that_stops_a_job_removes_it(scheduling, raw_redis, worker_config, caplog):
    worker_config.client_middleware.add(returning())
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    with caplog.at_level(logging.INFO, "offsider"):
        scheduling().tick()
    assert jobs_in(raw_redis) == {}
    assert "because client middleware canceled its push" in caplog.text


def test_middleware_that_raises_postpones_only_its_own_job(scheduling, raw_redis, worker_config):
    def picky(push):
        if push.payload["args"] == [1]:
            raise KeyError("broken")
        yield

    worker_config.client_middleware.add(picky)
    raw_redis.zadd("schedule", {payload(1): LONG_AGO, payload(2): LONG_AGO + 1})
    one = scheduling()
    one.tick()
    assert [job["args"] for job in moved(raw_redis)] == [[2]]
    ((member, score),) = raw_redis.zrange("schedule", 0, -1, withscores=True)
    assert member == payload(1)
    assert score == pytest.approx(now(raw_redis) + 60, abs=10)
    ((error, details),) = one.errors
    assert isinstance(error, KeyError)
    assert details["job"]["args"] == [1]


def test_a_job_made_unstorable_by_middleware_moves_unchanged(scheduling, raw_redis, worker_config):
    def spoil(push):
        push.payload["object"] = object()
        yield

    worker_config.client_middleware.add(spoil)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    scheduling().tick()
    assert raw_redis.lrange("queue:low", 0, -1) == [payload()]
    assert raw_redis.zcard("schedule") == 0


# ------------------------------------------------------------------------------------ invalid jobs


INVALID = {
    "no json": b"no json",
    "no utf-8": b"\xff\xfe",
    "array": b"[]",
    "no class": b'{"args":[]}',
    "no args": b'{"class":"X"}',
    "no queue": b'{"class":"X","args":[],"jid":"1"}',
    "empty queue": b'{"class":"X","args":[],"queue":""}',
    "queue null": b'{"class":"X","args":[],"queue":null}',
    "queue no text": b'{"class":"X","args":[],"queue":"\\ud800"}',
    # CPython 3.14 decodes 50,000 levels
    "deep": b'{"class":"X","queue":"low","args":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
}


@pytest.mark.parametrize("raw", INVALID.values(), ids=INVALID)
def test_an_invalid_job_moves_to_the_dead_set_and_the_next_one_moves(scheduling, raw_redis, raw):
    raw_redis.zadd("retry", {raw: 1.0, payload(): LONG_AGO})
    one = scheduling()
    one.tick()
    (dead,) = raw_redis.zrange("dead", 0, -1)
    assert (unwrap(dead) or dead) == raw
    assert isinstance(json.loads(dead), dict)
    assert len(moved(raw_redis)) == 1
    assert raw_redis.zcard("retry") == 0
    ((error, details),) = one.errors
    assert isinstance(error, MalformedPayload)
    assert details["jobstr"] == raw


@pytest.mark.parametrize(
    "odd",
    [
        {"log_level": 1},
        {"retry": "5"},
        {"retry": 2.5},
        {"backtrace": "10"},
        {"dead": "false"},
        {"jid": 7},
        {"jid": None},
        {"kwargs": [1]},
        {"soft_timeout": "fast"},
        {"hard_timeout": False},
        {"interrupted_count": "x"},
        {"tags": 5},
        {"retry_for": "1h"},
    ],
    ids=str,
)
def test_a_foreign_job_moves_with_any_options(scheduling, raw_redis, worker_config, odd):
    worker_config.client_middleware.add(lambda push: (yield))
    raw_redis.zadd("retry", {payload(**odd): 1.0})
    one = scheduling()
    one.tick()
    (job,) = moved(raw_redis)
    assert job.pop("enqueued_at") == pytest.approx(now(raw_redis) * 1000, abs=10_000)
    assert job == decode(payload(**odd))
    assert one.errors == []


@pytest.mark.parametrize("where", ["schedule", "retry"])
@pytest.mark.parametrize(
    "raw",
    [
        b'{"queue":"low","nothing":"else"}',
        b'{"class":"X","args":[1e999,-1e999],"queue":"low"}',
        b'{"class":"X","args":["\\ud800"],"queue":"low"}',
        b'{"class":"X","queue":"low","args":' + b"[" * 600 + b"]" * 600 + b"}",
    ],
    ids=["no job", "1e999", "surrogate", "600 levels"],
)
def test_an_object_with_a_queue_moves_unchanged(scheduling, raw_redis, worker_config, where, raw):
    worker_config.client_middleware.add(lambda push: (yield))
    raw_redis.zadd(where, {raw: 1.0})
    one = scheduling()
    one.tick()
    assert raw_redis.lrange("queue:low", 0, -1) == [raw]
    assert (one.errors, raw_redis.zcard(where), raw_redis.zcard("dead")) == ([], 0, 0)


def test_a_queue_of_the_wrong_type_postpones_only_its_own_job(scheduling, raw_redis, caplog):
    raw_redis.set("queue:bad", "wrong")
    raw_redis.zadd("schedule", {payload(1, queue="bad"): LONG_AGO, payload(2): LONG_AGO + 1})
    scheduling().tick()
    assert [job["args"] for job in moved(raw_redis)] == [[2]]
    ((member, score),) = raw_redis.zrange("schedule", 0, -1, withscores=True)
    assert member == payload(1, queue="bad")
    assert score == pytest.approx(now(raw_redis) + 60, abs=10)
    assert "queue:bad is not a list" in caplog.text


# ------------------------------------------------------------------------------------- rivals


def naive_poller(client, stop: threading.Event) -> None:
    """What any Ruby poller does: remove a due member, and push it if the removal succeeded."""
    while not stop.is_set():
        for member in client.zrange("schedule", 0, 4):
            if client.zrem("schedule", member):
                client.lpush("queue:low", member)


def test_many_pollers_of_two_kinds_move_each_job_once(scheduling, raw_redis, redis_url):
    jobs = 500
    raw_redis.zadd("schedule", {payload(n): LONG_AGO + n % 7 for n in range(jobs)})
    stop = threading.Event()
    ours = [scheduling(), scheduling()]
    with client_of(redis_url) as ruby:

        def poll(one: Scheduling) -> None:
            while not stop.is_set():
                one.tick()

        threads = [threading.Thread(target=poll, args=(one,)) for one in ours]
        threads.append(threading.Thread(target=naive_poller, args=(ruby, stop)))
        for thread in threads:
            thread.start()
        wait_for(lambda: raw_redis.zcard("schedule") == 0)
        stop.set()
        for thread in threads:
            thread.join(10)
    assert sorted(job["args"][0] for job in moved(raw_redis)) == list(range(jobs))


# -------------------------------------------------------------------------------------- faults


def test_a_lost_reply_moves_no_job_twice(scheduling, raw_redis, proxied_config, proxy):
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    one = scheduling(proxied_config)
    raw_redis.script_load(MOVE.text)
    proxy.lose_reply(MOVE.sha.encode())
    assert one.tick() == 1.0
    one.tick()
    assert len(moved(raw_redis)) == 1
    assert proxy.lost == 1
    assert len(one.errors) == 1


def test_an_outage_is_reported_once_and_its_end_is_logged(scheduling, raw_redis, proxied_config, proxy, caplog):
    one = scheduling(proxied_config)
    proxy.refuse()
    for _ in range(3):
        assert one.tick() == 1.0
    assert [details["context"] for _, details in one.errors] == ["scheduler"]
    proxy.accept()
    with caplog.at_level(logging.INFO, "offsider"):
        one.tick()
    assert "scheduler: Redis is online" in caplog.text


def test_a_set_of_the_wrong_type_does_not_block_the_other(scheduling, raw_redis):
    raw_redis.set("retry", "no set")
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    one = scheduling()
    one.tick()
    assert moved(raw_redis)
    assert [details["context"] for _, details in one.errors] == ["scheduler"]
