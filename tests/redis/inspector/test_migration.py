"""The whole migration over all places of all servers."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis as redis_py

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, QueueFull, RedisUnavailable
from offsider.inspector import Queue, ScheduledSet, Stats
from offsider.inspector.migration import Migration, Relocation, moving
from offsider.jobs import registry
from offsider.storage import migration
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.migration import Step
from tests.redis.inspector.migrating import JOBS, RULES, every_job, in_queue, in_set, push, raw_job, two_servers
from tests.snapshot import snapshot
from tests.tagged import client_of

HELD = f"{DEFAULT_PREFIX}offsider:limits:jobs:A"


@pytest.fixture(autouse=True)
def jobs():
    with registry.isolated():
        exec(JOBS, {"__name__": "shop"})
        yield


@pytest.fixture
def config(redis_url, other_url):
    config = two_servers(redis_url, other_url)
    yield config
    Installation.of(config).close()


@pytest.fixture
def bulk(other_url, raw_redis):
    with redis_py.Redis.from_url(other_url) as client:
        yield client


@pytest.fixture
def filled(raw_redis, bulk):
    """Jobs of every kind at every place; the server ``bulk`` has one of main's."""
    names = ["shop.mail", "shop.report", "shop.rest", "Ruby::HardJob", "mail"]
    push(raw_redis, "old", [raw_job(names[n % 5], n) for n in range(1_000)])
    push(raw_redis, "urgent", [raw_job("shop.mail", 2_000, "urgent"), b"no job"])
    raw_redis.zadd("schedule", {raw_job(names[n % 5], 3_000 + n): 2e9 + n / 7 for n in range(500)})
    raw_redis.zadd("retry", {raw_job("shop.mail", 4_000, error_message='"queue":"old"', retry_count=1): 1.7e9})
    push(bulk, "slow", [raw_job("shop.rest", 5_000, "slow"), raw_job("shop.report", 5_001, "slow")])
    raw_redis.lrem("queue:urgent", 1, b"no job")
    return every_job(raw_redis, bulk)


def moves(report) -> dict[tuple[str, str, str, str], int]:
    """Job, where, from and to."""
    return {
        (way.job_name, way.where, f"{way.from_server}/{way.from_queue}", f"{way.to_server}/{way.to_queue}"): count
        for way, count in report.relocations.items()
    }


EXPECTED = {
    ("shop.mail", "queue", "main/old", "main/urgent"): 200,
    ("mail", "queue", "main/old", "main/urgent"): 200,
    ("shop.report", "queue", "main/old", "bulk/slow"): 200,
    ("shop.rest", "queue", "main/old", "main/default"): 200,
    ("shop.mail", "schedule", "main/old", "main/urgent"): 100,
    ("mail", "schedule", "main/old", "main/urgent"): 100,
    ("shop.report", "schedule", "main/old", "bulk/slow"): 100,
    ("shop.rest", "schedule", "main/old", "main/default"): 100,
    ("shop.mail", "retry", "main/old", "main/urgent"): 1,
    ("shop.rest", "queue", "bulk/slow", "main/default"): 1,
}


def test_a_preview_counts_everything_and_changes_nothing(config, filled, raw_redis, bulk):
    before = snapshot(raw_redis), snapshot(bulk)
    report = Migration(config).preview()
    assert moves(report) == EXPECTED
    assert (report.looked_at, report.in_place, report.undeclared) == (1_504, 2, {"Ruby::HardJob": 300})
    assert (report.taken, report.refused, report.finished, report.complete) == (0, 0, 0, True)
    assert (snapshot(raw_redis), snapshot(bulk)) == before


def test_a_run_matches_its_preview(config, filled, raw_redis, bulk):
    scores = {number: score for (_, number, _), score in in_set(raw_redis, "schedule").items()}
    report = Migration(config).run()
    assert moves(report) == EXPECTED
    assert report.undeclared == {"Ruby::HardJob": 300}
    assert every_job(raw_redis, bulk) == filled
    # Oldest first out, behind the existing jobs, and each job names its current queue.
    assert in_queue(raw_redis, "urgent") == [
        ("shop.mail", 2_000), *(("shop.mail" if n % 5 == 0 else "mail", n) for n in range(1_000) if n % 5 in (0, 4))
    ]  # fmt: skip
    assert in_queue(bulk, "slow") == [("shop.report", 5_001), *(("shop.report", n) for n in range(1, 1_000, 5))]
    assert in_queue(raw_redis, "default") == [*(("shop.rest", n) for n in range(2, 1_000, 5)), ("shop.rest", 5_000)]
    assert in_queue(raw_redis, "old") == [("Ruby::HardJob", n) for n in range(3, 1_000, 5)]
    for client, queue in ((raw_redis, "urgent"), (raw_redis, "default"), (bulk, "slow")):
        assert {json.loads(raw)["queue"] for raw in client.lrange(f"queue:{queue}", 0, -1)} == {queue}
        assert queue.encode() in client.smembers("queues")
    # The sets keep the very scores, on either server.
    now = in_set(raw_redis, "schedule") | in_set(bulk, "schedule")
    assert {number: score for (_, number, _), score in now.items()} == scores
    assert set(in_set(bulk, "schedule")) == {("shop.report", 3_000 + n, "slow") for n in range(1, 500, 5)}
    assert in_set(raw_redis, "retry") == {("shop.mail", 4_000, "urgent"): 1.7e9}
    assert b'\\"queue\\":\\"old\\"' in raw_redis.zrange("retry", 0, -1)[0]
    # Nothing is left on its way, and there is nothing more to do.
    assert in_transit(raw_redis) == 0
    assert Migration(config).run().moved == 0


def test_places_can_be_chosen(config, filled):
    for places in (["queues"], ["scheduled", "retries"]):
        chosen = {name: name in places for name in ("queues", "scheduled", "retries")}
        report = Migration(config, **chosen).preview()
        assert {way.where for way in report.relocations} == ({"queue"} if "queues" in places else {"schedule", "retry"})


def test_queues_and_classes_can_be_chosen(config, filled):
    report = Migration(config, from_queues=["slow"]).preview()
    assert moves(report) == {("shop.rest", "queue", "bulk/slow", "main/default"): 1}
    report = Migration(config, names=["mail"], queues=False).preview()
    assert {way.job_name for way in report.relocations} == {"mail", "shop.mail"}


def test_a_limit_stops_the_run_and_the_next_one_resumes(config, filled, raw_redis, bulk):
    first = Migration(config, limit=150).run()
    assert (first.moved, first.complete) == (150, False)
    assert every_job(raw_redis, bulk) == filled
    assert in_queue(raw_redis, "urgent")[1][1] == 0
    rest = Migration(config).run()
    assert rest.moved == sum(EXPECTED.values()) - 150
    assert every_job(raw_redis, bulk) == filled


def test_a_run_stops_on_request(config, filled, raw_redis, bulk):
    migration = Migration(config)
    report = migration.run(progress=lambda _: migration.stop())
    assert not report.complete
    assert 0 < report.looked_at < 1_000
    assert every_job(raw_redis, bulk) == filled


def test_a_queue_is_renamed_with_all_that_names_it(config, filled, raw_redis, bulk):
    report = Migration(config, renames={"old": "legacy"}).run()
    assert report.moved == 1_501
    assert not raw_redis.exists("queue:old")
    assert raw_redis.llen("queue:legacy") == 1_000
    assert {queue for _, _, queue in in_set(raw_redis, "schedule")} == {"legacy"}
    assert in_queue(raw_redis, "legacy") == [(name, n) for name, n in in_queue(raw_redis, "legacy") if n < 1_000]
    assert every_job(raw_redis, bulk) == filled


def hold(client, raws):
    client.sadd("offsider:places", HELD)
    client.lpush(HELD, *raws)


def test_held_jobs_are_routed_when_they_resume(config, raw_redis, bulk):
    names = ["shop.mail", "shop.report", "Ruby::HardJob"]
    hold(raw_redis, [raw_job(names[n % 3], n) for n in range(900)])
    before = every_job(raw_redis, bulk)
    assert moves(Migration(config).preview()) == {
        ("shop.mail", "held", "main/old", "main/urgent"): 300,
        ("shop.report", "held", "main/old", "bulk/slow"): 300,
    }
    assert Migration(config, queues=False).run().moved == 0
    report = Migration(config).run()
    assert (report.moved, report.looked_at, report.undeclared) == (600, 1_200, {"Ruby::HardJob": 300})
    assert every_job(raw_redis, bulk) == before
    held = [json.loads(raw) for raw in reversed(raw_redis.lrange(HELD, 0, -1))]
    assert [job["args"][0] for job in held] == [n for n in range(900) if n % 3 != 1]
    assert {(job["class"], job["queue"]) for job in held} == {("shop.mail", "urgent"), ("Ruby::HardJob", "old")}
    assert in_queue(bulk, "slow") == [("shop.report", n) for n in range(1, 900, 3)]


def test_held_jobs_of_a_renamed_queue_move_to_the_new_one(config, raw_redis):
    hold(raw_redis, [raw_job("Ruby::HardJob", n, ("old", "other")[n % 2]) for n in range(6)])
    assert Migration(config, renames={"old": "new"}).run().moved == 3
    held = [json.loads(raw)["queue"] for raw in reversed(raw_redis.lrange(HELD, 0, -1))]
    assert held == ["new", "other"] * 3


def test_progress_is_reported_page_by_page(config, filled):
    seen: list[int] = []
    Migration(config).preview(progress=lambda report: seen.append(report.looked_at))
    assert seen == sorted(seen)
    assert len(seen) >= 1_504 / 200


def test_jobs_move_between_two_hash_tags_of_one_cluster(cluster):
    """The servers have different primaries, and each keeps to its own."""
    assert cluster.primary("offsider") is not cluster.primary("bulk")
    config = Config()
    config.redis.url = cluster.url
    config.add_server("bulk", url=cluster.url, key_prefix="{bulk}:")
    with client_of(cluster.url) as client:
        push(client, "old", [raw_job("shop.report", n) for n in range(50)])
        client.zadd("schedule", {raw_job("shop.report", 50): 2e9})
    config.routing.rules = RULES
    assert Migration(config).run().moved == 51
    bulk = Installation.of(config, "bulk")
    assert [job.args[0] for job in Queue("slow", bulk)] == [*range(50)]
    assert [(job.args[0], job.score) for job in ScheduledSet(bulk)] == [(50, 2e9)]
    assert Stats.read(config).enqueued == 0
    Installation.of(config).close()


def leave(config, server, *numbers):
    """Jobs of the queue ``old`` are in transit, as after a migration that was killed."""
    jobs = [Step(raw_job("shop.report", n), raw_job("shop.report", n, "slow"), "queue:slow", server) for n in numbers]
    redis = Installation.of(config, "main").redis
    migration.move(redis, redis.keys.queue("old"), jobs)


def in_transit(raw_redis) -> int:
    return sum(map(raw_redis.llen, raw_redis.keys("offsider:migrating:*")))


def test_jobs_that_were_left_in_transit_arrive_first(config, raw_redis, bulk):
    push(raw_redis, "old", [raw_job("shop.report", n) for n in range(3)])
    leave(config, "bulk", 0, 1)
    assert Migration(config).preview().finished == 2
    report = Migration(config, limit=0).run()
    assert (report.finished, report.moved) == (2, 0)
    assert in_queue(bulk, "slow") == [("shop.report", 0), ("shop.report", 1)]
    assert in_queue(raw_redis, "old") == [("shop.report", 2)]
    assert in_transit(raw_redis) == 0


def test_a_job_that_was_stored_before_the_crash_is_stored_once(config, raw_redis, bulk, monkeypatch):
    push(raw_redis, "old", [raw_job("shop.report", n) for n in range(3)])
    with monkeypatch.context() as patch:
        patch.setattr(migration, "arrived", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Migration(config).run()
    assert bulk.llen("queue:slow") == in_transit(raw_redis) == 3
    assert bulk.rpop("queue:slow") is not None  # a worker has run it by now
    assert Migration(config).run().finished == 3
    assert in_queue(bulk, "slow") == [("shop.report", 1), ("shop.report", 2)]


def test_a_job_that_returns_and_leaves_again_is_stored_again(config, raw_redis, bulk):
    push(raw_redis, "old", [raw_job("shop.report", 0)])
    for _ in range(3):
        assert Migration(config).run().moved == 1
        push(raw_redis, "slow", [bulk.rpop("queue:slow")])
    assert in_queue(raw_redis, "slow") == [("shop.report", 0)]


def test_equal_jobs_all_move(config, raw_redis, bulk):
    push(raw_redis, "old", [raw_job("shop.report", 0)] * 3)
    assert Migration(config).run().moved == 3
    assert bulk.llen("queue:slow") == 3


def test_a_list_of_an_earlier_revision_arrives(config, raw_redis, bulk):
    raw_redis.sadd("offsider:migrating", "0123456789abcdef bulk")
    raw_redis.lpush("offsider:migrating:0123456789abcdef", b"1 - queue:slow\n" + raw_job("shop.report", 0, "slow"))
    assert Migration(config).run().finished == 1
    assert in_queue(bulk, "slow") == [("shop.report", 0)]
    assert in_transit(raw_redis) == 0


def test_a_server_that_fails_midway_gets_no_more_jobs(config, raw_redis, bulk, monkeypatch):
    push(raw_redis, "old", [raw_job("shop.report", n) for n in range(250)])
    raw_redis.zadd("retry", {raw_job("shop.report", 900): 5})

    def fail(*_):
        raise RedisUnavailable("gone in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(moving, "store_once", fail)
        report = Migration(config).run()
    assert (report.moved, report.refused, report.on_their_way) == (200, 51, 200)
    assert str(report.failures["bulk"]) == "gone in the middle"
    assert in_queue(raw_redis, "old") == [("shop.report", n) for n in range(200, 250)]
    report = Migration(config).run()
    assert (report.finished, report.moved) == (200, 51)
    assert sorted(in_queue(bulk, "slow")) == [("shop.report", n) for n in range(250)]


def test_a_job_that_its_queue_refuses_stays_in_transit_and_stops_no_other(config, raw_redis, bulk):
    push(raw_redis, "old", [raw_job("shop.report", n) for n in range(2)])
    raw_redis.zadd("retry", {raw_job("shop.report", 2): 5})
    leave(config, "bulk", 0)
    bulk.set("queue:slow", "no list")
    report = Migration(config).run()
    assert "WRONGTYPE" in str(report.failures["bulk"])
    assert (report.finished, report.moved, report.refused, report.on_their_way) == (0, 0, 2, 1)
    bulk.delete("queue:slow")
    report = Migration(config).run()
    assert (report.finished, report.moved, in_queue(bulk, "slow")[0]) == (1, 2, ("shop.report", 0))


def test_jobs_in_transit_to_an_unknown_server_are_an_error(config, raw_redis):
    push(raw_redis, "old", [raw_job("shop.report", 0)])
    leave(config, "gone", 0)
    with pytest.raises(ConfigurationError, match="there is no server 'gone'"):
        Migration(config).run()


@pytest.fixture
def full(make_server):
    """The address of a server that has no memory for jobs."""
    server = make_server()
    with redis_py.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
    return server.url


@pytest.mark.parametrize("how", ["full", "away"])
def test_a_server_that_fails_keeps_no_job_of_the_others_from_moving(how, full, redis_url, raw_redis, other_url):
    push(raw_redis, "old", [raw_job(("shop.report", "shop.rest")[n % 2], n) for n in range(6)])
    raw_redis.zadd("retry", {raw_job("shop.report", 6): 1, raw_job("shop.mail", 7): 1})
    before = every_job(raw_redis)
    config = two_servers(redis_url, other_url)
    config.servers["bulk"].url = full if how == "full" else "redis://127.0.0.1:1/0"
    looked = Migration(config).preview()
    report = Migration(config).run()
    Installation.of(config).close()
    assert (report.moved, report.refused, report.on_their_way) == (4, 4, 0)
    error = QueueFull if how == "full" else RedisUnavailable
    assert {server: type(failure) for server, failure in report.failures.items()} == {"bulk": error}
    assert (list(looked.failures), looked.moved) == ([] if how == "full" else ["bulk"], 8)
    assert report.complete is (how == "full")  # a full server can still be read
    assert in_queue(raw_redis, "default") == [("shop.rest", n) for n in (1, 3, 5)]
    assert in_queue(raw_redis, "old") == [("shop.report", n) for n in (0, 2, 4)]
    assert every_job(raw_redis) == before
    assert in_transit(raw_redis) == 0


def test_the_first_server_may_be_away_as_well(redis_url, raw_redis, other_url):
    push(raw_redis, "slow", [raw_job("shop.report", 1, "slow")])
    config = two_servers(redis_url, other_url)
    config.redis.url, config.servers["bulk"].url = "redis://127.0.0.1:1/0", redis_url
    report = Migration(config).run()
    Installation.of(config).close()
    assert (list(report.failures), report.looked_at, report.in_place) == (["main"], 1, 1)


def test_without_any_server_there_is_nothing_to_report(redis_url, other_url):
    config = two_servers(redis_url, other_url)
    config.redis.url = config.servers["bulk"].url = "redis://127.0.0.1:1/0"
    for work in (Migration(config).preview, Migration(config).run):
        with pytest.raises(RedisUnavailable):
            work()


def test_jobs_that_an_earlier_migration_left_wait_for_their_server(redis_url, raw_redis, other_url):
    config = two_servers(redis_url, other_url)
    config.servers["bulk"].url = "redis://127.0.0.1:1/0"
    push(raw_redis, "old", [raw_job("shop.report", 0), raw_job("shop.rest", 1)])
    leave(config, "bulk", 0)
    report = Migration(config).run()
    Installation.of(config).close()
    assert (report.finished, report.on_their_way, report.moved) == (0, 1, 1)


def test_unknown_selected_queues_are_reported(config, filled, raw_redis):
    raw_redis.zadd("schedule", {raw_job("shop.mail", 9_000, "planned"): 2e9})
    assert Migration(config, from_queues=["old", "odl", "planned"]).preview().unknown_queues == ["odl"]
    assert Migration(config, from_queues=["old"], queues=False).preview().unknown_queues == []
    assert Migration(config, renames={"odl": "new"}).run().unknown_queues == ["odl"]


def test_an_unusable_destination_leaves_jobs_in_place(raw_redis, redis_url):
    config = Config()
    config.redis.url = redis_url
    config.routing.rules = [["*", "broken"]]
    push(raw_redis, "old", [raw_job("shop.rest", n) for n in range(500)])
    raw_redis.set("queue:broken", "no list")
    report = Migration(config).run()
    Installation.of(config).close()
    assert (report.moved, report.refused) == (0, 500)
    assert raw_redis.llen("queue:old") == 500


def test_jobs_claimed_during_the_run_stay_with_their_workers(config, raw_redis, bulk, monkeypatch):
    push(raw_redis, "old", [raw_job("shop.rest", n) for n in range(1_000)])
    raw_redis.zadd("retry", {raw_job("shop.rest", 2_000 + n): n for n in range(300)})
    taken: list[bytes] = []

    def take(_report) -> None:
        taken.extend(raw_redis.rpop("queue:old", 30) or [])
        taken.extend(raw for raw, _ in raw_redis.zpopmax("retry", 5))

    report = Migration(config).run(progress=take)
    every = every_job(raw_redis, bulk) + Counter((("shop.rest", json.loads(raw)["args"][0])) for raw in taken)
    assert every == Counter({("shop.rest", n): 1 for n in (*range(1_000), *range(2_000, 2_300))})
    assert raw_redis.llen("queue:old") == 0
    assert report.moved + len([raw for raw in taken if json.loads(raw)["queue"] == "old"]) >= 1_300


def test_two_migrations_at_once_lose_and_double_no_job(redis_url, raw_redis, bulk, other_url):
    names = ["shop.report", "shop.rest", "Ruby::HardJob"]
    push(raw_redis, "old", [raw_job(names[n % 3], n) for n in range(3_000)])
    before = every_job(raw_redis, bulk)
    configs = [two_servers(redis_url, other_url) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        reports = list(pool.map(lambda config: Migration(config).run(), configs))
    for config in configs:
        Installation.of(config).close()
    assert sum(report.moved for report in reports) == 2_000
    assert every_job(raw_redis, bulk) == before
    assert (raw_redis.llen("queue:old"), bulk.llen("queue:slow"), in_transit(raw_redis)) == (1_000, 1_000, 0)


def test_listeners_are_called_before_and_after_each_job(config, raw_redis, bulk):
    push(raw_redis, "old", [raw_job("shop.report", 0), raw_job("shop.rest", 1)])
    heard: list[object] = []

    @config.on("job_moving")
    def moving(news) -> None:
        heard.append((news.payload["queue"], news.changes["queue"], news.from_server, news.to_server))
        news.changes["note"] = "seen"

    @config.on("job_moved")
    def moved(news) -> None:
        heard.append((news.moving.changes["queue"], news.moved))

    Migration(config).run()
    assert sorted(map(str, heard)) == sorted(
        map(
            str,
            [
                ("old", "slow", "main", "bulk"),
                ("slow", True),
                ("old", "default", "main", "main"),
                ("default", True),
            ],
        )
    )
    assert json.loads(bulk.lindex("queue:slow", 0))["note"] == "seen"


def test_a_relocation_has_its_source_and_destination():
    way = Relocation("A", "queue", "main", "old", "bulk", "new")
    assert (way.from_server, way.to_queue) == ("main", "new")


def test_two_names_of_one_server_are_refused_before_anything_moves(redis_url, raw_redis):
    push(raw_redis, "old", [raw_job("shop.rest", n) for n in range(5)])
    config = Config()
    config.redis.url = redis_url
    config.add_server("bulk", url=redis_url.replace("/server.sock", "/./server.sock"))
    config.routing.rules = [["*", "slow", "bulk"]]
    with pytest.raises(ConfigurationError, match="the servers main and bulk are the same server"):
        Migration(config).run()
    assert raw_redis.llen("queue:old") == 5
    assert not raw_redis.keys("offsider:migrating*")
    Installation.of(config).close()
