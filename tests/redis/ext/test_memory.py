"""The memory that `offsider stats --memory` shows, compared with the server's own figure for each key."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from offsider import Discard, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.batches import Batch, Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiter, Limiters
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.results import Results, subscriber
from offsider.ext.unique import Unique
from offsider.inspector import Controls, Queue
from offsider.inspector.server_info import memory_by_family
from offsider.jobs import registry
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for

#: Keys that the jobs below must leave, by the name of their family.
WRITTEN = {
    *("queue:*", "queues", "schedule", "retry", "dead", "stat:*", "j|*", "b-*", "batches"),
    *("offsider:results:job:*", "offsider:results:done:*", "offsider:results:classes"),
    *("offsider:limiter:*", "offsider:limiters", "offsider:unique:*", "offsider:errors", "offsider:errors:*"),
    *("offsider:controls", "offsider:limits", "offsider:groups", "offsider:held:*", "offsider:periodic:*"),
    *("<YYYYMMDD>-marks", "deploylock-*"),
}


@pytest.fixture
def config(config, tag, monkeypatch):
    monkeypatch.setattr(subscriber, "IDLE_SECONDS", 0.02)  # tests wait for their threads
    config.redis.key_prefix = f"{tag}shop:"
    config.worker.queues = ["default"]
    for extension in (Unique, ConcurrencyLimits, Limiters, Results, Batches, Periodic):
        config.use(extension())
    return config


@pytest.fixture
def jobs():
    with registry.isolated():

        @job(name="Kept", keep_result=60)
        def kept(size: int) -> str:
            return "x" * size

        @job(name="Fails", retry=3)
        def fails() -> None:
            raise ValueError("no")

        @job(name="Dies", retry=0)
        def dies() -> None:
            raise ValueError("no")

        @job(name="Discards")
        def discards() -> None:
            raise Discard

        @job(name="Once", unique_for=600)
        def once() -> None: ...

        @job(name="Held", concurrency_limit=1)
        def held(size: str) -> None: ...

        @job(name="HeldByKey", concurrency_limit=0, key=lambda number: number % 150)
        def held_by_key(number: int) -> None: ...

        yield SimpleNamespace(
            kept=kept, fails=fails, dies=dies, discards=discards, once=once, held=held, held_by_key=held_by_key
        )


def test_each_family_is_what_the_server_says_of_its_keys(config, jobs, raw_redis):
    client, controls = Client(config), Controls(config)
    for name in ("Held", "HeldByKey"):
        controls.hold(name)
    with RunningWorker(config):
        client.push_bulk({"class": jobs.kept, "args": [[size] for size in range(0, 5_000, 100)]})
        for declared in (jobs.fails, jobs.dies, jobs.discards):
            client.push({"class": declared, "args": []})
        with Limiter.window("stripe", 5, "hour", config=config).within_limit():
            pass
        client.push_bulk({"class": jobs.held, "args": [["x" * size] for size in range(0, 10_000, 50)]})
        client.push_bulk({"class": jobs.held_by_key, "args": [[number] for number in range(200)]})
        wait_for(lambda: sum(group.held for group in controls.groups()) == 400 and not len(Queue("default", config)))
    periodic = PeriodicJobs(config)
    for number in range(40):
        periodic.add("0 3 * * *", "Nightly", name=f"nightly-{number}", args=["x" * number])
        for _ in range(number % 4):
            periodic[f"nightly-{number}"].run()
    with Batch(config=config):
        client.push_bulk({"class": jobs.kept, "args": [[1], [2]]})
    client.push({"class": jobs.once, "args": [], "at": 4_102_444_800})
    raw_redis.set("of another application", "x" * 1_000)

    for key in raw_redis.scan_iter():
        raw_redis.persist(key)  # none expires between the two counts

    found, complete = memory_by_family(Installation.of(config))
    assert complete
    assert {family.name for family in found} >= WRITTEN
    assert sum(family.count for family in found) == raw_redis.dbsize()
    ledger = {family.name: [0, 0] for family in found}
    for key in raw_redis.scan_iter():
        name = max(filter(belongs(key.decode()), ledger), key=len, default="other keys")
        ledger[name][0] += 1
        ledger[name][1] += raw_redis.memory_usage(key, samples=0)
    assert {family.name: family.count for family in found} == {name: count for name, (count, _) in ledger.items()}
    for family in found:
        assert family.estimated_bytes == pytest.approx(ledger[family.name][1], rel=0.1), family.name
    others = [key for key in raw_redis.scan_iter() if not any(belongs(key.decode())(name) for name in ledger)]
    assert others == [b"of another application"]


def belongs(key: str):
    """Whether a family with a pattern, or the name of one key, contains the key."""
    return lambda name: re.fullmatch(
        re.escape(f"shop:{name}").replace(r"\*", ".*").replace("<YYYYMMDD>", r"\d{8}"), key
    )
