"""A unique job that is migrated stays unique: its lock moves with it."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider import Config, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.unique import Locks, Unique, store
from offsider.inspector import Migration
from offsider.runtime.events import JobMoved, JobMoving

OLD, NEW = [["*", "old"]], [["*", "new"]]
ELSEWHERE = [["*", "new", "bulk"]]


@pytest.fixture
def refresh(declared):
    @job(name="shop.refresh", extra={"unique_for": 600})
    def refresh(number: int) -> None: ...

    return refresh


@pytest.fixture
def with_rules(redis_url, other_url):
    """Makes configurations that differ in their rules, as before and after a deploy."""
    made: list[Config] = []

    def make(rules, **settings):
        config = Config()
        config.redis.url = redis_url
        config.add_server("bulk", url=other_url)
        config.routing.rules = rules
        config.use(Unique(**settings))
        made.append(config)
        return config

    yield make
    for config in made:
        Installation.of(config).close()


@pytest.fixture
def bulk(other_url):
    with redis_py.Redis.from_url(other_url) as client:
        yield client


def push(config, job):
    return Client(config).push({"class": job, "args": [1]})


def names(config):
    return {lock.name: lock.jid for lock in Locks(config)}


@pytest.mark.parametrize("across_queues", [False, True])
def test_a_job_is_still_unique_in_its_new_queue(refresh, with_rules, raw_redis, across_queues):
    jid = push(with_rules(OLD, across_queues=across_queues), refresh)
    now = with_rules(NEW, across_queues=across_queues)
    assert Migration(now).run().moved == 1
    assert push(now, refresh) is None
    ((name, holder),) = names(now).items()
    assert holder == jid
    assert name.encode() in raw_redis.lindex("queue:new", 0)
    assert store.release(Installation.of(now).redis, name, jid) == store.FREED
    assert push(now, refresh) is not None


def test_a_job_is_still_unique_on_its_new_server(refresh, with_rules, raw_redis, bulk):
    before = with_rules(OLD)
    jid = push(before, refresh)
    now = with_rules(ELSEWHERE)
    assert Migration(now).run().moved == 1
    assert names(before) == {}
    ((name, holder),) = names(Installation.of(now, "bulk")).items()
    assert holder == jid
    assert name.encode() in bulk.lindex("queue:new", 0)
    assert push(now, refresh) is None
    assert 590_000 < bulk.pttl(f"offsider:unique:{name}") <= 600_000


def test_jobs_that_were_not_duplicates_before_a_move_both_run(refresh, with_rules, raw_redis):
    before, now = with_rules(OLD), with_rules(NEW)
    first, second = push(before, refresh), push(now, refresh)
    held = names(now)
    assert set(held.values()) == {first, second}
    assert Migration(now).run().moved == 1
    assert raw_redis.llen("queue:new") == 2
    assert names(now) == held


def test_a_move_frees_the_old_lock_even_if_another_job_holds_the_new_one(refresh, with_rules, bulk):
    before, now = with_rules(OLD), with_rules(ELSEWHERE)
    push(before, refresh)
    holder = push(now, refresh)
    assert Migration(now).run().moved == 1
    assert bulk.llen("queue:new") == 2
    assert names(before) == {}
    assert set(names(Installation.of(now, "bulk")).values()) == {holder}


def test_a_job_claimed_just_before_its_move_keeps_its_old_lock(refresh, with_rules, raw_redis):
    jid = push(with_rules(OLD), refresh)
    now = with_rules(NEW)
    before = names(now)
    now.on("job_moving", lambda _: raw_redis.rpop("queue:old"))
    assert Migration(now).run().taken == 1
    assert names(now) == before
    assert set(before.values()) == {jid}


def test_jobs_without_a_lock_or_with_one_of_unknown_name_are_left_alone(refresh, with_rules, raw_redis):
    before, now = with_rules(OLD), with_rules(NEW)
    push(before, refresh)
    raw = raw_redis.lindex("queue:old", 0)
    (name,) = names(before)
    raw_redis.lset("queue:old", 0, raw.replace(name.encode(), b"0" * 64))
    raw_redis.lpush("queue:old", b'{"class":"shop.refresh","args":[5],"queue":"old"}')
    assert Migration(now).run().moved == 2
    assert list(names(now)) == [name]


def test_an_expired_lock_is_not_acquired_again(refresh, with_rules, raw_redis):
    push(with_rules(OLD), refresh)
    raw_redis.delete(*raw_redis.keys("offsider:unique*"))
    now = with_rules(NEW)
    assert Migration(now).run().moved == 1
    assert names(now) == {}


def test_a_failed_move_frees_only_the_new_lock(refresh, with_rules):
    now = with_rules(NEW)
    jid = push(with_rules(OLD), refresh)
    (old,) = names(now)
    payload = {"class": "shop.refresh", "args": [1], "jid": jid, "queue": "old", "idempotency_key": old}
    news = JobMoving(payload, {"queue": "new"}, "main", "main")
    now.events.emit("job_moving", news)
    assert len(names(now)) == 2
    now.events.emit("job_moved", JobMoved(news, moved=False))
    assert list(names(now)) == [old]


def test_the_lock_of_a_job_with_compressed_arguments_moves_too(with_rules, declared, raw_redis):
    @job(name="shop.export", extra={"unique_for": 600})
    def export(text: str) -> None: ...

    before = with_rules(OLD)
    before.client.large_payloads = "compress"
    item = {"class": export, "args": ["x" * 200_000]}
    jid = Client(before).push(item)
    assert b'"compressed":true' in raw_redis.lindex("queue:old", 0)
    now = with_rules(NEW)
    assert Migration(now).run().moved == 1
    ((name, holder),) = names(now).items()
    assert holder == jid
    assert name.encode() in raw_redis.lindex("queue:new", 0)
    assert b'"compressed":true' in raw_redis.lindex("queue:new", 0)
    assert Client(now).push(item) is None
