"""The walk through a queue or a set, page by page, while others are at work."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.inspector.migration import migration as walk_module
from offsider.inspector.migration.judge import Judge
from offsider.inspector.migration.migration import Walk
from offsider.inspector.migration.moving import Source
from offsider.inspector.migration.report import MigrationReport
from offsider.jobs import registry
from offsider.storage import migration
from tests.redis.inspector.migrating import JOBS, in_queue, in_set, push, raw_job, two_servers


@pytest.fixture(autouse=True)
def jobs():
    with registry.isolated():
        exec(JOBS, {"__name__": "shop"})
        yield


@pytest.fixture
def old(tag):
    return Source(f"{tag}queue:old", "queue", "old")


@pytest.fixture
def walk(redis_url, other_url):
    config = two_servers(redis_url, other_url)

    def make(*, limit=None, moves=True):
        judge = Judge(config, from_queues=[], names=[], renames={})
        report = MigrationReport()
        return Walk(Installation.of(config), "main", judge, report, limit=limit, moves=moves), report

    yield make
    Installation.of(config).close()


def test_concurrent_pushes_and_claims_do_not_change_the_order(walk, raw_redis, old):
    push(raw_redis, "old", [raw_job("shop.rest" if n % 2 else "Ruby::HardJob", n) for n in range(600)])
    walking, report = walk()
    for page, _ in enumerate(walking.through(old)):
        if page == 0:
            push(raw_redis, "old", [raw_job("shop.rest", 1_000)])
            raw_redis.rpop("queue:old", 50)
    assert report.moved == 275
    met = [n for n in range(600) if not 200 <= n < 250]
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in met if n % 2]
    stayed = in_queue(raw_redis, "old")
    assert [job for job in stayed if job[1] != 1_000] == [("Ruby::HardJob", n) for n in met if not n % 2]
    assert ("shop.rest", 1_000) in stayed  # for the next run


def test_jobs_requeued_during_the_walk_hide_no_other(walk, raw_redis, old):
    push(raw_redis, "old", [raw_job("shop.rest" if n % 2 else "Ruby::HardJob", n) for n in range(600)])
    walking, _ = walk()
    for _ in walking.through(old):
        taken = raw_redis.rpop("queue:old", 10)
        if taken and b"Ruby" in taken[0]:
            raw_redis.rpush("queue:old", *reversed(taken))
    assert {name for name, _ in in_queue(raw_redis, "old")} <= {"Ruby::HardJob"}


def test_a_queue_without_moving_jobs_is_only_read(walk, raw_redis, old):
    push(raw_redis, "old", [raw_job("Ruby::HardJob", n) for n in range(600)])
    before = raw_redis.lrange("queue:old", 0, -1)
    walking, report = walk()
    changes = raw_redis.info("persistence")["rdb_changes_since_last_save"]
    assert len(list(walking.through(old))) == 2
    assert raw_redis.info("persistence")["rdb_changes_since_last_save"] == changes
    assert (report.looked_at, report.moved, report.undeclared) == (600, 0, {"Ruby::HardJob": 600})
    assert raw_redis.lrange("queue:old", 0, -1) == before


def test_a_late_job_that_moves_has_each_job_counted_once(walk, raw_redis, old):
    push(raw_redis, "old", [raw_job("Ruby::HardJob", n) for n in range(450)] + [raw_job("shop.rest", 450)])
    walking, report = walk()
    list(walking.through(old))
    assert (report.looked_at, report.moved, report.undeclared) == (451, 1, {"Ruby::HardJob": 450})
    assert in_queue(raw_redis, "old") == [("Ruby::HardJob", n) for n in range(450)]


def test_jobs_for_several_servers_leave_a_page_in_their_order(walk, raw_redis, other_url, old):
    names = ["shop.report", "shop.rest", "Ruby::HardJob"]
    push(raw_redis, "old", [raw_job(names[n % 3], n) for n in range(90)])
    walking, _ = walk()
    list(walking.through(old))
    with redis_py.Redis.from_url(other_url) as bulk:
        assert in_queue(bulk, "slow") == [("shop.report", n) for n in range(0, 90, 3)]
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in range(1, 90, 3)]
    assert in_queue(raw_redis, "old") == [("Ruby::HardJob", n) for n in range(2, 90, 3)]


def test_a_member_removed_just_before_is_counted_as_taken(walk, raw_redis, monkeypatch, tag):
    raw_redis.zadd("retry", {raw_job("shop.rest", n): n for n in range(2)})
    move = migration.move

    def take_first(redis, *given):
        raw_redis.zpopmin("retry")
        return move(redis, *given)

    monkeypatch.setattr(migration, "move", take_first)
    walking, report = walk()
    list(walking.through(Source(f"{tag}retry", "retry")))
    assert (report.looked_at, report.moved, report.taken) == (2, 1, 1)


def test_pages_are_small_where_jobs_are_big(walk, raw_redis, old):
    big = "x" * 20_000
    push(raw_redis, "old", [raw_job("Ruby::HardJob", n, note=big) for n in range(300)])
    walking, report = walk(moves=False)
    seen = [report.looked_at for _ in walking.through(old)]
    assert seen[0] == 200
    assert seen[1] - seen[0] < 60
    assert seen[-1] == 300


def test_a_limit_is_reached_within_a_page(walk, raw_redis, old):
    push(raw_redis, "old", [raw_job("shop.rest", n) for n in range(50)])
    walking, report = walk(limit=7)
    assert not walking.limit_reached
    next(walking.through(old))
    assert walking.limit_reached
    assert report.moved == 7
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in range(7)]
    assert raw_redis.llen("queue:old") == 43


def test_counted_jobs_are_not_moved(walk, raw_redis, tag):
    raw_redis.zadd("retry", {raw_job("shop.rest", n): n for n in range(450)})
    walking, report = walk(moves=False)
    assert len(list(walking.through(Source(f"{tag}retry", "retry")))) == 3
    assert report.moved == 450
    assert raw_redis.zcard("retry") == 450


def test_a_key_of_the_wrong_type_has_no_jobs(walk, raw_redis, old):
    raw_redis.set("queue:old", "no list")
    walking, report = walk()
    assert list(walking.through(old)) == []
    assert report.looked_at == 0


def test_other_refusals_of_a_server_raise(walk, monkeypatch, old):
    def refusing(*_):
        raise RedisRefused("NOPERM this user may not", code="NOPERM")

    monkeypatch.setattr(walk_module.queue_walk, "read_on", refusing)
    walking, _ = walk()
    with pytest.raises(RedisRefused):
        list(walking.through(old))


def test_jobs_that_are_due_at_the_same_time_all_move(walk, raw_redis, tag):
    raw_redis.zadd("schedule", {raw_job("shop.rest" if n % 3 else "Ruby::HardJob", n): 5.5 for n in range(450)})
    walking, report = walk()
    list(walking.through(Source(f"{tag}schedule", "schedule")))
    assert report.moved == 300
    assert {queue for name, _, queue in in_set(raw_redis, "schedule") if name == "shop.rest"} == {"default"}
    assert raw_redis.zcard("schedule") == raw_redis.zcount("schedule", 5.5, 5.5) == 450


def test_jobs_that_their_new_queue_refuses_keep_their_order(walk, raw_redis, old):
    raw_redis.set("queue:default", "no list")
    push(raw_redis, "old", [raw_job("shop.rest", n) for n in range(600)])
    walking, report = walk()
    for page, _ in enumerate(walking.through(old)):
        push(raw_redis, "old", [raw_job("shop.rest", 1_000 + page)])
    stayed = [n for _, n in in_queue(raw_redis, "old")]
    assert [n for n in stayed if n < 600] == list(range(600))
    assert (report.moved, report.refused) == (0, 600)
