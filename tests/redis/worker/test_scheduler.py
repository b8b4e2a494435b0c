"""Due jobs move to their queues, each exactly once, and nothing blocks the rest (rules 13, 22, 23)."""

from __future__ import annotations

import logging
import threading

import pytest
import redis as redis_py

from offsider.client import Client
from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode, encode
from offsider.storage import job_sets
from offsider.wiring.config import Config
from offsider.worker.scheduler import Scheduler
from tests.snapshot import snapshot
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
        self.redis = config.make_redis(2)
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


def moved(client, queue: str = "low") -> list[dict]:
    return [decode(raw) for raw in reversed(client.lrange(f"queue:{queue}", 0, -1))]


def now(client) -> float:
    return client.time()[0]


# -------------------------------------------------------------------------------------- moving


@pytest.mark.parametrize("where", ["schedule", "retry"])
def test_a_due_job_moves_with_the_time_of_its_enqueueing(scheduling, raw_redis, where):
    raw_redis.zadd(where, {payload(foreign={"x": 2**70}): LONG_AGO})
    scheduling().tick()
    (job,) = moved(raw_redis)
    assert job.pop("enqueued_at") == pytest.approx(now(raw_redis) * 1000, abs=10_000)
    assert job == decode(payload(foreign={"x": 2**70}))
    assert set(snapshot(raw_redis)) == {"queue:low", "queues"}


def test_what_is_due_is_decided_by_the_server(scheduling, raw_redis, worker_config):
    """A process whose clock is a day ahead must not run jobs a day early."""

    class Ahead(type(worker_config.clock)):
        def now(self):
            return super().now() + 86_400

    worker_config.clock = Ahead()
    raw_redis.zadd("schedule", {payload(1): now(raw_redis) + 3600, payload(2): LONG_AGO})
    scheduling().tick()
    assert [job["args"] for job in moved(raw_redis)] == [[2]]


def test_it_sleeps_to_the_next_score_and_a_second_at_most(scheduling, raw_redis):
    one = scheduling()
    assert one.tick() == 1.0
    raw_redis.zadd("schedule", {payload(): now(raw_redis) + 3600})
    assert one.tick() == 1.0
    seconds, micros = raw_redis.time()
    raw_redis.zadd("retry", {payload(): seconds + micros / 1e6 + 0.5})
    assert 0 < one.tick() <= 0.5


def test_a_job_keeps_its_arguments_that_strict_checks_would_refuse_today(scheduling, raw_redis):
    raw_redis.zadd("retry", {payload(kwargs={"a": 1}, retry_count=3, error_message="old"): LONG_AGO})
    scheduling().tick()
    (job,) = moved(raw_redis)
    assert (job["kwargs"], job["retry_count"], job["error_message"]) == ({"a": 1}, 3, "old")


def test_a_job_whose_time_was_edited_after_it_was_read_stays(scheduling, raw_redis, worker_config):
    """The bytes are the same, so only the score tells (rule 13)."""

    def edit(push, call_next):
        raw_redis.zadd("schedule", {payload(): 9e9})
        return call_next(push)

    worker_config.client_middleware.add(edit)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    scheduling().tick()
    assert snapshot(raw_redis) == {"schedule": {payload(): 9e9}}


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


# ---------------------------------------------------------------------------------- middleware


def test_middleware_runs_again_and_is_told_why(scheduling, raw_redis, worker_config):
    reasons = []

    def watch(push, call_next):
        reasons.append((push.reason, push.payload["args"]))
        push.payload["trace"] = "t"
        return call_next(push)

    worker_config.client_middleware.add(watch)
    raw_redis.zadd("schedule", {payload(1): LONG_AGO})
    raw_redis.zadd("retry", {payload(2): LONG_AGO})
    scheduling().tick()
    assert sorted(reasons) == [("retry", [2]), ("schedule", [1])]
    assert [job["trace"] for job in moved(raw_redis)] == ["t", "t"]


def test_middleware_may_send_a_job_to_another_queue(scheduling, raw_redis, worker_config):
    def divert(push, call_next):
        push.payload["queue"] = "other"
        return call_next(push)

    worker_config.client_middleware.add(divert)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    scheduling().tick()
    assert [job["queue"] for job in moved(raw_redis, "other")] == ["other"]


def test_middleware_that_stops_a_job_removes_it(scheduling, raw_redis, worker_config, caplog):
    worker_config.client_middleware.add(lambda push, call_next: None)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    with caplog.at_level(logging.INFO, "offsider"):
        scheduling().tick()
    assert snapshot(raw_redis) == {}
    assert "client middleware stopped job" in caplog.text


def test_middleware_that_raises_puts_its_job_off_and_no_other(scheduling, raw_redis, worker_config):
    def picky(push, call_next):
        if push.payload["args"] == [1]:
            raise KeyError("broken")
        return call_next(push)

    worker_config.client_middleware.add(picky)
    raw_redis.zadd("schedule", {payload(1): LONG_AGO, payload(2): LONG_AGO + 1})
    one = scheduling()
    one.tick()
    assert [job["args"] for job in moved(raw_redis)] == [[2]]
    ((member, score),) = raw_redis.zrange("schedule", 0, -1, withscores=True)
    assert member == payload(1)
    assert score == pytest.approx(now(raw_redis) + 60, abs=10)
    ((error, told),) = one.errors
    assert isinstance(error, KeyError)
    assert told["job"]["args"] == [1]


def test_what_middleware_made_unstorable_moves_as_it_was(scheduling, raw_redis, worker_config):
    def spoil(push, call_next):
        push.payload["object"] = object()
        return call_next(push)

    worker_config.client_middleware.add(spoil)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    scheduling().tick()
    assert raw_redis.lrange("queue:low", 0, -1) == [payload()]
    assert raw_redis.zcard("schedule") == 0


def test_middleware_may_run_for_a_move_that_loses_the_race(scheduling, raw_redis, worker_config):
    """Its effects have to be keyed by jid (rule 23); the job is there once."""

    def slow(push, call_next):
        raw_redis.zrem("schedule", payload())
        raw_redis.lpush("queue:low", payload())
        return call_next(push)

    worker_config.client_middleware.add(slow)
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    scheduling().tick()
    assert raw_redis.lrange("queue:low", 0, -1) == [payload()]


# ------------------------------------------------------------------------------- what is no job


@pytest.mark.parametrize(
    "raw",
    [
        b"no json",
        b"\xff\xfe",
        b"[]",
        b'{"args":[]}',
        b'{"class":"X"}',
        b'{"class":"X","args":[],"jid":"1"}',
        b'{"class":"X","args":[],"queue":""}',
        b'{"class":"X","args":[1e400],"queue":"low"}',
        b'{"class":"X","args":["\\ud800"],"queue":"low"}',
        b'{"class":"X","queue":"low","args":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
    ids=[
        "no json",
        "no utf-8",
        "array",
        "no class",
        "no args",
        "no queue",
        "empty queue",
        "1e400",
        "surrogate",
        "deep",
    ],
)
def test_what_is_no_job_goes_to_the_dead_set_as_it_is_and_the_next_one_moves(scheduling, raw_redis, raw):
    raw_redis.zadd("retry", {raw: 1.0, payload(): LONG_AGO})
    one = scheduling()
    one.tick()
    assert raw_redis.zrange("dead", 0, -1) == [raw]
    assert len(moved(raw_redis)) == 1
    assert raw_redis.zcard("retry") == 0
    ((error, told),) = one.errors
    assert isinstance(error, MalformedPayload)
    assert told["jobstr"] == raw


def test_a_queue_that_is_no_list_puts_its_job_off_and_no_other(scheduling, raw_redis, caplog):
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
    """What any Ruby poller does: remove a due member, and whoever removed it pushes it."""
    while not stop.is_set():
        for member in client.zrange("schedule", 0, 4):
            if client.zrem("schedule", member):
                client.lpush("queue:low", member)


def test_many_pollers_of_two_kinds_move_each_job_once(scheduling, raw_redis, redis_url):
    jobs = 500
    raw_redis.zadd("schedule", {payload(n): LONG_AGO + n % 7 for n in range(jobs)})
    stop = threading.Event()
    ours = [scheduling(), scheduling()]
    with redis_py.Redis.from_url(redis_url) as ruby:

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


def test_a_lost_answer_moves_nothing_twice(scheduling, raw_redis, proxied_config, proxy):
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    one = scheduling(proxied_config)
    raw_redis.script_load(job_sets.ENQUEUE.text)
    proxy.lose_reply(job_sets.ENQUEUE.sha.encode())
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
    assert [told["context"] for _, told in one.errors] == ["scheduler"]
    proxy.accept()
    with caplog.at_level(logging.INFO, "offsider"):
        one.tick()
    assert "scheduler: Redis is online" in caplog.text


def test_as_a_service_it_starts_without_an_initial_wait_and_stops(scheduling, raw_redis):
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    one = scheduling().scheduler
    one.start()
    wait_for(lambda: moved(raw_redis))
    one.stop()
    assert one.join(10)


def test_a_set_of_the_wrong_type_does_not_hold_up_the_other(scheduling, raw_redis):
    raw_redis.set("retry", "no set")
    raw_redis.zadd("schedule", {payload(): LONG_AGO})
    one = scheduling()
    one.tick()
    assert moved(raw_redis)
    assert [told["context"] for _, told in one.errors] == ["scheduler"]
