"""The election: the leader, its followers, and the end of a leadership."""

from __future__ import annotations

import threading
import time

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.runtime import leader as module
from offsider.runtime.leader import LIFE_SECONDS, RENEW_SECONDS, Leader, Leadership
from tests.faults import FaultProxy
from tests.waiting import wait_for


@pytest.fixture
def stand(redis_url):
    """Creates a candidate for the election."""
    configs = []

    def make(identity: str, url: str = redis_url) -> Leader:
        config = Config()
        config.redis.url = url
        configs.append(config)
        elected = threading.Event()
        one = Leader(
            Installation.of(config).redis,
            lambda: identity,
            Leadership(),
            elected.set,
            on_error=lambda error, context: None,
        )
        one.elected = elected
        return one

    yield make
    for config in configs:
        Installation.of(config).close()


def test_the_first_candidate_leads_and_is_notified_once(stand, raw_redis):
    one = stand("a")
    assert not one._leadership
    assert one.tick() == RENEW_SECONDS
    assert one._leadership
    assert one.elected.wait(10)
    one.elected.clear()
    assert one.tick() == RENEW_SECONDS
    assert not one.elected.wait(0.05)
    assert raw_redis.get("dear-leader") == b"a"


def test_others_follow_and_take_over_when_the_lead_has_ended(stand, raw_redis):
    one, other = stand("a"), stand("b")
    one.tick()
    assert 15 < other.tick() <= LIFE_SECONDS + module.SPREAD_SECONDS
    assert not other._leadership
    raw_redis.delete("dear-leader")
    assert other.tick() == RENEW_SECONDS
    assert other._leadership
    one.tick()
    assert not one._leadership


def test_a_leader_that_cannot_ask_believes_in_itself_no_longer_than_its_lead(stand, redis_url, monkeypatch):
    with FaultProxy(redis_url) as proxy:
        one = stand("a", proxy.url)
        one.tick()
        assert one._leadership
        proxy.refuse()
        assert one.tick() == module.RETRY_SECONDS
        later = time.monotonic() + module.LIFE_SECONDS
        monkeypatch.setattr(module.time, "monotonic", lambda: later)
        assert not one._leadership


def test_a_stopping_leader_resigns(stand, raw_redis):
    one = stand("a")
    one.start()
    wait_for(lambda: raw_redis.get("dear-leader") == b"a")
    wait_for(lambda: bool(one._leadership))
    one.stop()
    assert one.join(10)
    assert raw_redis.get("dear-leader") is None
    assert not one._leadership


def test_a_leader_that_cannot_resign_still_stops(stand, redis_url, raw_redis):
    with FaultProxy(redis_url) as proxy:
        one = stand("a", proxy.url)
        one.start()
        assert one.elected.wait(10)
        proxy.refuse()
        one.stop()
        assert one.join(10)
    assert raw_redis.get("dear-leader") == b"a"


def test_a_follower_leaves_the_leader_alone_at_its_stop(stand, raw_redis):
    raw_redis.set("dear-leader", "other", ex=20)
    one = stand("a")
    one.start()
    wait_for(lambda: one.ticks >= 1)
    one.stop()
    assert one.join(10)
    assert raw_redis.get("dear-leader") == b"other"
