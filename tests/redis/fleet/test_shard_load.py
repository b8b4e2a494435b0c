"""How busy shards are, and how many processes they should have."""

from __future__ import annotations

import json

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.core.series import Load, Series
from offsider.fleet.shards import QueueTargets, ShardLoad, ShardLoads
from offsider.storage import run_counts
from offsider.testing import FakeClock

NOW = 1_800_000_030.0


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOW)
    yield
    Installation.of(config).close()


@pytest.fixture
def register(raw_redis):
    def register(number: int, shard: str, queues: list[str], *, busy: int = 0, quiet: bool = False) -> None:
        identity = f"host:{number}:abcdefabcdef"
        info = {"hostname": "host", "pid": number, "concurrency": 10, "queues": queues, "shard": shard}
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping={"info": json.dumps(info), "busy": busy, "quiet": str(quiet).lower()})

    return register


@pytest.fixture
def wait(raw_redis):
    def wait(queue: str, seconds: float) -> None:
        raw_redis.sadd("queues", queue)
        raw_redis.lpush(
            f"queue:{queue}", encode({"class": "A", "args": [], "enqueued_at": int((NOW - seconds) * 1000)})
        )

    return wait


@pytest.fixture
def work(config):
    def work(shard: str, run: float, threads: float, *, ago: float = 0, series: tuple[Series, ...] = ()) -> None:
        redis = Installation.of(config).redis
        run_counts.add(redis, series, NOW - ago, wire_version=8, load=Load(run, threads), shard=shard)

    return work


def ran(queue: str, urgency: str) -> Series:
    return Series({"class": f"{queue} {urgency}", "queue": queue, "urgency": urgency}, processed=1, satisfied=1)


def shards(config) -> dict[str, ShardLoad]:
    return {shard.name: shard for shard in ShardLoads.read(config)}


def test_a_shard_is_all_its_processes_but_quiet_ones(config, register, work):
    register(1, "urgent", ["high", "mail"], busy=4)
    register(2, "urgent", ["high"], busy=1)
    register(3, "urgent", ["high"], busy=9, quiet=True)
    register(4, "", ["default"])
    found = shards(config)
    assert list(found) == ["", "urgent"]
    urgent = found["urgent"]
    assert (urgent.processes, urgent.threads, urgent.busy) == (2, 20, 5)
    assert urgent.queues == ["high", "mail"]
    assert (urgent.used_hour, urgent.used_ten_minutes) == (None, None)


def test_utilization_is_execution_time_over_the_time_of_threads(config, register, work):
    register(1, "urgent", ["high"])
    work("urgent", 60.0, 600.0, ago=45 * 60)
    work("urgent", 240.0, 600.0, ago=5 * 60)
    work("urgent", 999.0, 999.0, ago=70 * 60)
    urgent = shards(config)["urgent"]
    assert (urgent.used_hour, urgent.used_ten_minutes) == (0.25, 0.4)
    assert urgent.total == Load(1299.0, 2199.0)


def test_a_shard_is_still_listed_after_losing_its_last_process(config, work):
    work("gone", 30.0, 100.0)
    gone = shards(config)["gone"]
    assert (gone.processes, gone.used_ten_minutes) == (0, 0.3)


def test_latency_is_measured_against_the_most_urgent_class_of_a_queue(config, register, wait, work):
    work("", 0, 1, series=(ran("mixed", "low"), ran("mixed", "high"), ran("slow", "throttled"), ran("plain", "low")))
    register(1, "all", ["mixed", "slow", "plain", "unknown"])
    for queue, seconds in (("mixed", 15), ("slow", 9000), ("plain", 30), ("unknown", 60)):
        wait(queue, seconds)
    shard = shards(config)["all"]
    assert (shard.latest_queue, shard.pressure) == ("mixed", 1.5)


def test_throttled_jobs_cause_no_pressure(config, register, wait, work, raw_redis):
    work("", 0, 1, series=(ran("slow", "throttled"),))
    register(1, "all", ["slow", "held", "empty"])
    wait("slow", 9000)
    wait("held", 9000)
    raw_redis.sadd("paused", "held")
    assert shards(config)["all"].pressure == 0.0


def test_the_desired_processes_follow_from_waits(config, register, wait, work):
    work("", 0, 1, series=(ran("mail", "high"),))
    register(1, "urgent", ["mail"])
    register(2, "urgent", ["mail"])
    work("urgent", 30.0, 100.0)
    assert shards(config)["urgent"].desired == 2
    wait("mail", 15)
    assert shards(config)["urgent"].desired == 3


def test_a_shard_without_processes_is_wanted_when_jobs_wait_in_its_queues(config, wait, tmp_path):
    file = tmp_path / "offsider.toml"
    file.write_text(
        'servers.far.url = "redis://far"\n[shards]\n'
        'night.queues = ["reports,2"]\nfar = {queues = ["far"], server = "far"}\n'
    )
    configured = Config.load(file, environ={})
    configured.redis.url, configured.clock = config.redis.url, config.clock
    assert [(name, shard.desired) for name, shard in shards(configured).items()] == [("night", 0)]
    wait("reports", 5)
    night = shards(configured)["night"]
    assert (night.queues, night.latest_queue, night.desired) == (["reports"], "reports", 1)
    Installation.of(configured).close()


def test_undeclared_labels_have_the_targets_of_low_urgency(config):
    targets = QueueTargets(config.slo, [Series({"queue": "q", "urgency": "odd"}), Series({})])
    assert (targets.of("q"), targets.of("")) == (60.0, 60.0)


def test_the_history_has_each_quarter_of_the_last_hours_and_gaps_without_threads(config, work):
    for ago in range(60, 2 * 3600, 60):
        work("urgent", 20.0 if ago <= 180 else 0.0, 100.0, ago=ago)
    history = ShardLoads.history(config=config)["urgent"]
    assert (len(history), history[0], history[-2]) == (24, None, 0.0)
    assert history[-1] == pytest.approx(3 * 20 / 1500)


def test_without_data_the_result_is_empty(config):
    assert ShardLoads.read(config) == []
    assert ShardLoads.history(config=config) == {}
