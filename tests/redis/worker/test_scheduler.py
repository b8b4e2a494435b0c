"""Due jobs move to their queues, retries first, and nothing at the head of a set blocks what is behind it."""

from __future__ import annotations

import logging

import pytest

from offsider.client import Client
from offsider.core.payload import decode
from offsider.wiring.config import Config
from offsider.worker.scheduler import BATCH, LONGEST_SLEEP_SECONDS, PUT_OFF_SECONDS, Scheduler
from tests.faults import FaultProxy
from tests.snapshot import snapshot
from tests.waiting import wait_for

NAMES = ("retry", "schedule")


def job(number: int, queue: str = "low") -> bytes:
    return b'{"class":"HardJob","args":[%d],"queue":"%s","jid":"%024x","foreign":{"kept":1}}' % (
        number,
        queue.encode(),
        number,
    )


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    return config


@pytest.fixture
def reports(config) -> list[tuple[str, dict]]:
    told: list[tuple[str, dict]] = []
    config.error_handlers.append(lambda error, context: told.append((str(error), dict(context))))
    return told


@pytest.fixture
def make_scheduler(config):
    pools = []

    def make() -> Scheduler:
        redis = config.make_redis(2)
        pools.append(redis)
        return Scheduler(config, redis, Client(config, redis))

    yield make
    for redis in pools:
        redis.close()


@pytest.fixture
def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1_000_000


def numbers(raw_redis, queue: str = "low") -> list[int]:
    """Arguments of a queue in the order in which its jobs run."""
    return [decode(raw)["args"][0] for raw in reversed(raw_redis.lrange(f"queue:{queue}", 0, -1))]


def test_what_is_due_moves_and_the_rest_stays(make_scheduler, raw_redis, now):
    raw_redis.zadd("retry", {job(1): now - 1, job(2): now + 100})
    raw_redis.zadd("schedule", {job(3): now - 5, job(4): now + 100})
    make_scheduler().tick()
    assert numbers(raw_redis) == [1, 3]  # retries first, however long the others are due
    stored = snapshot(raw_redis)
    assert stored["retry"] == {job(2): pytest.approx(now + 100)}
    assert stored["schedule"] == {job(4): pytest.approx(now + 100)}
    assert set(stored) == {"queues", "queue:low", "retry", "schedule"}


def test_a_moved_job_is_prepared_as_a_push_would_be_and_keeps_the_rest(make_scheduler, raw_redis, config, now):
    reasons = []

    def stamp(push, call_next):
        reasons.append(push.reason)
        push.payload["stamped"] = True
        return call_next(push)

    config.client_middleware.add(stamp)
    for name in NAMES:
        raw_redis.zadd(name, {job(1): now - 1})
    make_scheduler().tick()
    assert reasons == ["retry", "schedule"]
    for raw in raw_redis.lrange("queue:low", 0, -1):
        payload = decode(raw)
        assert payload["enqueued_at"] == pytest.approx(now * 1000, abs=5000)
        assert payload["retry"] is True
        assert {key: payload[key] for key in decode(job(1))} == decode(job(1))
        assert payload["stamped"]


@pytest.mark.parametrize(
    "ahead, sleep", [(None, LONGEST_SLEEP_SECONDS), (100, LONGEST_SLEEP_SECONDS), (0.4, 0.4), (-1, 0)]
)
def test_it_sleeps_until_the_next_job_is_due_at_most_a_second(make_scheduler, raw_redis, now, ahead, sleep):
    if ahead is not None:
        raw_redis.zadd("schedule", {job(n): now + ahead for n in range(1 if ahead > 0 else BATCH + 1)})
    assert make_scheduler().tick() == pytest.approx(sleep, abs=0.2)


def test_more_than_a_batch_is_moved_in_several_steps(make_scheduler, raw_redis, now):
    for name, offset in zip(NAMES, (0, 1000), strict=True):
        raw_redis.zadd(name, {job(offset + n): now - 500 + n for n in range(BATCH + 20)})
    scheduler = make_scheduler()
    assert scheduler.tick() == 0
    assert (raw_redis.zcard("retry"), raw_redis.zcard("schedule")) == (20, 20)  # both sets had their turn
    assert scheduler.tick() == LONGEST_SLEEP_SECONDS
    assert sorted(numbers(raw_redis)) == [*range(BATCH + 20), *range(1000, 1000 + BATCH + 20)]


def test_two_schedulers_side_by_side_move_each_job_once(make_scheduler, raw_redis, now):
    raw_redis.zadd("schedule", {job(n): now - 500 + n for n in range(5 * BATCH)})
    both = [make_scheduler(), make_scheduler()]
    for scheduler in both:
        scheduler.start()
    wait_for(lambda: raw_redis.zcard("schedule") == 0)
    for scheduler in both:
        scheduler.stop()
        scheduler.join(5)
    assert sorted(numbers(raw_redis)) == list(range(5 * BATCH))


def test_a_job_is_moved_within_a_moment_of_its_time_and_a_stopped_one_moves_nothing(make_scheduler, raw_redis, now):
    scheduler = make_scheduler()
    scheduler.start()
    raw_redis.zadd("schedule", {job(1): now + 0.3})
    wait_for(lambda: raw_redis.llen("queue:low"), 5)
    scheduler.stop()
    scheduler.join(5)
    raw_redis.zadd("schedule", {job(2): now - 1})
    assert raw_redis.zcard("schedule") == 1


@pytest.mark.parametrize("bad", [b"\xff no job", b'{"class":"X","args":[]}', b'{"class":"X","args":[],"queue":""}'])
def test_what_cannot_be_moved_is_buried_and_blocks_nobody(make_scheduler, raw_redis, reports, now, bad):
    for name in NAMES:
        raw_redis.zadd(name, {bad: 1, job(1): 2})
    make_scheduler().tick()
    assert numbers(raw_redis) == [1, 1]
    assert raw_redis.zrange("dead", 0, -1) == [bad]
    assert [context["context"] for _, context in reports] == [f"a malformed payload in {name}" for name in NAMES]
    assert {context["jobstr"] for _, context in reports} == {bad}


def test_a_job_whose_middleware_raises_is_put_off_by_a_minute(make_scheduler, raw_redis, config, reports, now):
    def picky(push, call_next):
        if push.payload["args"] == [1]:
            raise LookupError("not this one")
        return call_next(push)

    config.client_middleware.add(picky)
    raw_redis.zadd("retry", {job(1): now - 2, job(2): now - 1})
    make_scheduler().tick()
    assert numbers(raw_redis) == [2]
    assert snapshot(raw_redis)["retry"] == {job(1): pytest.approx(now + PUT_OFF_SECONDS, abs=5)}
    ((message, context),) = reports
    assert message == "not this one"
    assert context["context"] == "moving a job out of retry"
    assert context["job"]["args"] == [1]


def test_a_job_that_middleware_stops_is_gone_and_told(make_scheduler, raw_redis, config, now, caplog):
    caplog.set_level(logging.INFO, logger="offsider")
    config.client_middleware.add(lambda push, call_next: None)
    raw_redis.zadd("schedule", {job(1): now - 1})
    make_scheduler().tick()
    assert snapshot(raw_redis) == {}
    assert "client middleware stopped job 000000000000000000000001 on its way out of schedule" in caplog.text


def test_what_middleware_makes_unwritable_moves_as_it_is(make_scheduler, raw_redis, config, now):
    def spoils(push, call_next):
        push.payload["object"] = object()
        return call_next(push)

    config.client_middleware.add(spoils)
    raw_redis.zadd("schedule", {job(1): now - 1})
    make_scheduler().tick()
    assert raw_redis.lrange("queue:low", 0, -1) == [job(1)]


def test_a_queue_that_is_no_list_makes_its_job_wait_and_no_other(make_scheduler, raw_redis, now, caplog):
    raw_redis.set("queue:odd", "wrong")
    raw_redis.zadd("schedule", {job(1, "odd"): now - 2, job(2): now - 1})
    make_scheduler().tick()
    assert numbers(raw_redis) == [2]
    assert snapshot(raw_redis)["schedule"] == {job(1, "odd"): pytest.approx(now + PUT_OFF_SECONDS, abs=5)}
    assert "queue:odd is not a list; a job that is due waits" in caplog.text


@pytest.fixture
def proxy(redis_url):
    with FaultProxy(redis_url) as proxy:
        yield proxy


def test_an_outage_is_told_once_and_its_end_too(proxy, make_scheduler, raw_redis, config, reports):
    config.redis.url = proxy.url
    scheduler = make_scheduler()
    raw_redis.zadd("schedule", {job(1): 1})
    proxy.refuse()
    assert [scheduler.tick(), scheduler.tick()] == [LONGEST_SLEEP_SECONDS] * 2
    proxy.accept()
    scheduler.tick()
    assert [context["context"] for _, context in reports] == ["scheduler"]
    assert numbers(raw_redis) == [1]
