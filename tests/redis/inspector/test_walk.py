"""The walk through a queue or a set, page by page, while others are at work."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.inspector.migration import walk as walk_module
from offsider.inspector.migration.judge import Judge
from offsider.inspector.migration.report import MigrationReport
from offsider.inspector.migration.walk import Walk
from offsider.jobs import registry
from tests.redis.inspector.migrating import JOBS, in_queue, in_set, push, raw_job, two_servers


@pytest.fixture(autouse=True)
def jobs():
    with registry.isolated():
        exec(JOBS, {"__name__": "shop"})
        yield


@pytest.fixture
def walk(redis_url):
    config = two_servers(redis_url)

    def make(*, limit=None, moves=True):
        judge = Judge(config, from_queues=[], names=[], renames={})
        report = MigrationReport()
        return Walk(config, "main", judge, report, limit=limit, moves=moves), report

    yield make
    config.close()


def test_jobs_that_come_in_meanwhile_are_met_as_well(walk, raw_redis):
    push(raw_redis, "old", [raw_job("shop.rest" if n % 2 else "Ruby::HardJob", n) for n in range(600)])
    walking, report = walk()
    for page, _ in enumerate(walking.in_queue("old")):
        if page == 0:
            push(raw_redis, "old", [raw_job("shop.rest", 1_000)])
            raw_redis.rpop("queue:old", 50)
    assert report.moved == 301
    assert in_queue(raw_redis, "default") == [*(("shop.rest", n) for n in range(1, 600, 2)), ("shop.rest", 1_000)]
    assert in_queue(raw_redis, "old") == [("Ruby::HardJob", n) for n in range(100, 600, 2)]


def test_pages_are_small_where_jobs_are_big(walk, raw_redis):
    big = "x" * 20_000
    push(raw_redis, "old", [raw_job("Ruby::HardJob", n, note=big) for n in range(300)])
    walking, report = walk()
    seen = [report.looked_at for _ in walking.in_queue("old")]
    assert seen[0] == 200
    assert seen[1] - seen[0] < 60
    assert seen[-1] == 300


def test_a_limit_is_reached_within_a_page(walk, raw_redis):
    push(raw_redis, "old", [raw_job("shop.rest", n) for n in range(50)])
    walking, report = walk(limit=7)
    assert not walking.limit_reached
    next(walking.in_queue("old"))
    assert walking.limit_reached
    assert report.moved == 7
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in range(7)]
    assert raw_redis.llen("queue:old") == 43


def test_what_is_only_counted_stays(walk, raw_redis):
    raw_redis.zadd("retry", {raw_job("shop.rest", n): n for n in range(450)})
    walking, report = walk(moves=False)
    assert len(list(walking.in_set("retry"))) == 3
    assert report.moved == 450
    assert raw_redis.zcard("retry") == 450


def test_a_key_that_is_no_list_holds_no_jobs(walk, raw_redis):
    raw_redis.set("queue:old", "no list")
    walking, report = walk()
    assert list(walking.in_queue("old")) == []
    assert report.looked_at == 0


def test_what_else_a_server_refuses_is_an_error(walk, monkeypatch):
    def refusing(*_):
        raise RedisRefused("NOPERM this user may not", code="NOPERM")

    monkeypatch.setattr(walk_module.queue_walk, "read_on_list", refusing)
    walking, _ = walk()
    with pytest.raises(RedisRefused):
        list(walking.in_queue("old"))


def test_jobs_that_are_due_at_the_same_time_all_move(walk, raw_redis):
    raw_redis.zadd("schedule", {raw_job("shop.rest" if n % 3 else "Ruby::HardJob", n): 5.5 for n in range(450)})
    walking, report = walk()
    list(walking.in_set("schedule"))
    assert report.moved == 300
    assert {queue for name, _, queue in in_set(raw_redis, "schedule") if name == "shop.rest"} == {"default"}
    assert raw_redis.zcard("schedule") == raw_redis.zcount("schedule", 5.5, 5.5) == 450
