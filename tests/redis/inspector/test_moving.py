"""Moves of one page: in batches of one server each, with positions that follow those that have gone."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider.core.errors import RedisUnavailable
from offsider.inspector.migration import moving
from offsider.inspector.migration.judge import Judge, Moves
from offsider.inspector.migration.moving import Candidate, Mover
from offsider.jobs import registry
from offsider.storage.job_sets import Moved
from tests.databases import at_database
from tests.redis.inspector.migrating import JOBS, in_queue, push, raw_job, two_servers


@pytest.fixture(autouse=True)
def jobs():
    with registry.isolated():
        exec(JOBS, {"__name__": "shop"})
        yield


@pytest.fixture
def config(redis_url):
    config = two_servers(redis_url)
    yield config
    config.close()


@pytest.fixture
def bulk(redis_url):
    with redis_py.Redis.from_url(at_database(redis_url, 1)) as client:
        yield client


def candidates(config, raws, queue="old"):
    judge = Judge(config, from_queues=[], names=[], renames={})
    judged = [judge.judge(raw, "main", queue) for raw in raws]
    return [Candidate(job, at) for at, job in enumerate(judged) if isinstance(job, Moves)]


def hows(outcomes):
    return [outcome.how for outcome in outcomes]


def test_jobs_for_several_servers_leave_a_page_in_their_order(config, raw_redis, bulk):
    names = ["shop.report", "shop.rest", "Ruby::HardJob"]
    raws = [raw_job(names[n % 3], n) for n in range(90)]
    push(raw_redis, "old", raws)
    moved = hows(Mover(config, "main", {}).from_queue("old", candidates(config, raws)))
    assert moved == [Moved.DONE] * 60
    assert in_queue(bulk, "slow") == [("shop.report", n) for n in range(0, 90, 3)]
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in range(1, 90, 3)]
    assert in_queue(raw_redis, "old") == [("Ruby::HardJob", n) for n in range(2, 90, 3)]


def test_a_batch_is_bounded_in_bytes_and_a_bigger_job_goes_alone(config, raw_redis, monkeypatch):
    raws = [raw_job("shop.rest", n) for n in range(10)]
    push(raw_redis, "old", raws)
    sizes: list[int] = []
    shift = moving.migration.shift
    monkeypatch.setattr(moving, "_MOST_BYTES", 3 * len(raws[0]))
    monkeypatch.setattr(
        moving.migration, "shift", lambda *given: (sizes.append(len(given[2])), shift(*given))[1]
    )  # fmt: skip
    assert hows(Mover(config, "main", {}).from_queue("old", candidates(config, raws))) == [Moved.DONE] * 10
    assert sizes == [3, 3, 3, 1]
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in range(10)]
    monkeypatch.setattr(moving, "_MOST_BYTES", 1)
    push(raw_redis, "old", raws[:2])
    assert hows(Mover(config, "main", {}).from_queue("old", candidates(config, raws[:2]))) == [Moved.DONE] * 2


def test_what_a_server_does_not_take_any_more_stays_on_its_way(config, raw_redis, bulk, monkeypatch):
    raws = [raw_job("shop.report", n) for n in range(2)]
    push(raw_redis, "old", raws)
    failures = {}
    mover = Mover(config, "main", failures)

    def fail(*_):
        raise RedisUnavailable("gone in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(moving.migration, "deliver", fail)
        assert hows(mover.from_queue("old", candidates(config, raws[:1]))) == [Moved.DONE]
        # Nobody asks it again.
        assert hows(mover.from_queue("old", candidates(config, raws[1:]))) == [Moved.REFUSED]
        assert hows(mover.from_set("retry", candidates(config, raws[1:]))) == [Moved.REFUSED]
    assert str(failures["bulk"]) == "gone in the middle"
    assert in_queue(bulk, "slow") == []
    assert Mover(config, "main", {}).finish() == 1
    assert in_queue(bulk, "slow") == [("shop.report", 0)]
    assert in_queue(raw_redis, "old") == [("shop.report", 1)]


def test_nothing_to_move_asks_nobody(config):
    mover = Mover(config, "main", {})
    assert mover.from_queue("old", []) == []
    assert mover.from_set("retry", []) == []


def test_jobs_of_a_set_that_are_gone_are_told(config, raw_redis):
    raws = [raw_job("shop.rest", 0), raw_job("shop.report", 1)]
    raw_redis.zadd("retry", {raws[1]: 5})
    assert hows(Mover(config, "main", {}).from_set("retry", candidates(config, raws))) == [Moved.GONE, Moved.DONE]
    assert hows(Mover(config, "main", {}).from_set("retry", candidates(config, raws))) == [Moved.GONE, Moved.GONE]
