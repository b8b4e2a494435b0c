"""One look at everything."""

import pytest

from offsider.inspector.fleet import Fleet
from tests.redis.inspector.fleets import seed


@pytest.fixture
def fleet(config, raw_redis):
    seed(raw_redis, config.shared_redis())
    yield Fleet.read(config)
    config.close()


def test_it_knows_who_serves_which_queue_and_what_runs(fleet):
    queues = {queue.name: queue for queue in fleet.queues}
    assert list(queues) == ["default", "low", "unserved"]
    assert (queues["default"].processes, queues["default"].concurrency, queues["default"].busy) == (3, 35, 1)
    assert (queues["low"].processes, queues["low"].concurrency, queues["low"].busy) == (1, 5, 2)
    assert queues["low"].longest_run_seconds == pytest.approx(50, abs=20)
    unserved = queues["unserved"]
    assert (unserved.processes, unserved.size, unserved.busy, unserved.longest_run_seconds) == (0, 1, 0, 0)
    assert unserved.latency_seconds == pytest.approx(30, abs=20)
    assert [queue.paused for queue in fleet.queues] == [True, False, False]
    assert fleet.running == {("Mail", "low"): 2, ("Mail", "default"): 1}


def test_it_adds_up_threads_and_those_that_work(fleet):
    assert (fleet.concurrency, fleet.busy) == (35, 3)


def test_it_tells_how_shards_fare(fleet):
    assert [(shard.name, shard.processes, shard.used_now) for shard in fleet.shards] == [
        ("", 1, 0.05),
        ("bulk", 1, 0.4),
    ]
    assert fleet.objective == 0.995


def test_an_empty_server_has_an_empty_fleet(config):
    fleet = Fleet.read(config)
    assert (fleet.concurrency, fleet.busy, fleet.queues, fleet.series) == (0, 0, [], [])
    config.close()
