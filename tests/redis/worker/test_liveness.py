"""The beat that keeps an owner alive."""

from __future__ import annotations

import pytest

from offsider.storage import owners
from offsider.worker.alive.liveness import Liveness
from tests.waiting import wait_for


def test_it_beats_nine_times_in_a_life_and_audits_each_time(parts, raw_redis):
    audits = []
    liveness = Liveness(parts.config, parts.ownership, [lambda: audits.append(1)])
    assert liveness.tick() == pytest.approx(5.0)
    assert raw_redis.exists(parts.redis.keys.alive(parts.ownership.identity))
    assert audits == [1]


def test_a_beat_that_was_not_written_is_tried_again_within_a_second_and_reported_once(proxied, proxy, raw_redis):
    audits = []
    liveness = Liveness(proxied.config, proxied.ownership, [lambda: audits.append(1)])
    proxy.refuse()
    assert [liveness.tick() for _ in range(3)] == [1.0, 1.0, 1.0]
    assert [reported["context"] for _, reported in proxied.errors] == ["liveness"]
    assert audits == []
    proxy.accept()
    assert liveness.tick() == pytest.approx(5.0)
    assert audits == [1]


def test_a_fenced_beat_registers_a_new_identity(parts, raw_redis):
    parts.ownership.register()
    old = parts.ownership.identity
    assert owners.fence(parts.redis, owners.Lists(old, {}), proven=True)
    Liveness(parts.config, parts.ownership, []).tick()
    assert parts.ownership.identity != old
    assert raw_redis.exists(parts.redis.keys.alive(parts.ownership.identity))


def test_as_a_service_it_starts_and_stops(parts, raw_redis):
    liveness = Liveness(parts.config, parts.ownership, [])
    liveness.start()
    wait_for(lambda: raw_redis.exists(parts.redis.keys.alive(parts.ownership.identity)))
    liveness.stop()
    assert liveness.join(10)
