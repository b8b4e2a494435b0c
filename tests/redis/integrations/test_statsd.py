"""The sizes of everything, sent by one process at a time."""

import time

from offsider.client import Client
from offsider.config.config import Config
from offsider.integrations.statsd import HistorySender
from tests.waiting import wait_for


class Gauges:
    """Records the sent gauges."""

    def __init__(self):
        self.sent = {}

    def gauge(self, metric, value, tags=None, sample_rate=None):
        self.sent[(metric, *(tags or ()))] = value


def test_it_sends_all_sizes(config, raw_redis):
    client = Client(config)
    client.push({"class": "Mail", "args": []})
    client.push({"class": "Mail", "args": [], "queue": "low"})
    client.push({"class": "Mail", "args": [], "at": time.time() + 3600})
    raw_redis.mset({"stat:processed": 5, "stat:failed": 2})
    raw_redis.zadd("dead", {"{}": 1})
    gauges = Gauges()
    assert HistorySender(config, gauges, 30, None).send() == 30
    (leader,) = (name for name in gauges.sent if name[0] == "leader")
    assert leader[1].startswith("process:")
    assert gauges.sent.pop(leader) == 1
    assert 0 <= gauges.sent.pop(("queue.latency", "queue:default")) < 60
    assert 0 <= gauges.sent.pop(("queue.latency", "queue:low")) < 60
    assert gauges.sent == {
        ("processed",): 5,
        ("failures",): 2,
        ("enqueued",): 2,
        ("retries",): 0,
        ("dead",): 1,
        ("scheduled",): 1,
        ("busy",): 0,
        ("queue.size", "queue:default"): 1,
        ("queue.size", "queue:low"): 1,
    }


def test_one_of_many_processes_sends_it(config):
    first, second = Gauges(), Gauges()
    histories = [HistorySender(config, first, 30, None), HistorySender(config, second, 30, None)]
    for _ in range(2):
        for history in histories:
            history.send()
    assert first.sent
    assert not second.sent


def test_custom_gauges_can_be_sent(config):
    gauges = Gauges()
    HistorySender(config, gauges, 30, lambda client, stats: client.gauge("shop.waiting", stats.enqueued)).send()
    assert gauges.sent[("shop.waiting",)] == 0


def test_an_unresponsive_server_is_queried_again_later(tmp_path):
    config = Config()
    config.redis.url = f"unix://{tmp_path}/none.sock"
    gauges = Gauges()
    assert HistorySender(config, gauges, 30, None).send() == 30
    assert not gauges.sent


def test_it_is_sent_repeatedly(config):
    gauges = Gauges()
    service = HistorySender(config, gauges, 0.02, None).service()
    service.start()
    try:
        wait_for(lambda: service.ticks >= 3)
        wait_for(lambda: ("enqueued",) in gauges.sent)
    finally:
        service.stop()
        service.join(10)
