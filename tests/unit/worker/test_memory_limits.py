"""When a process holds too much memory."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.worker.memory_limits import MemoryLimits, MemoryWatch

MB = 1024


def test_there_are_no_memory_limits_by_default():
    config = Config()
    limits = MemoryLimits.of(config.worker)
    assert limits == MemoryLimits(soft_mb=0, hard_mb=0, grace_seconds=900, min_life_seconds=60)
    assert not limits.any
    assert MemoryWatch(limits, 0).too_much(10**9, 10**6) == ""
    config.worker.memory_hard_mb = 1
    assert MemoryLimits.of(config.worker).any


def test_above_the_hard_limit_the_worker_is_replaced_immediately():
    watch = MemoryWatch(MemoryLimits(hard_mb=100), 0)
    assert watch.too_much(100 * MB, 70) == ""
    assert watch.too_much(101 * MB, 73) == "it uses 101 MB, more than memory_hard_mb = 100"


def test_above_the_soft_limit_the_worker_is_replaced_after_the_grace_period():
    watch = MemoryWatch(MemoryLimits(soft_mb=100, grace_seconds=9), 0)
    assert [watch.too_much(200 * MB, now) for now in (70, 73, 76)] == ["", "", ""]
    assert watch.too_much(200 * MB, 79) == "it has used more than memory_soft_mb = 100 for 9 s (200 MB now)"


def test_a_process_that_drops_below_the_soft_limit_gets_a_new_grace_period():
    watch = MemoryWatch(MemoryLimits(soft_mb=100, grace_seconds=9), 0)
    watch.too_much(200 * MB, 70)
    watch.too_much(50 * MB, 75)
    assert [watch.too_much(200 * MB, now) for now in (76, 80, 84)] == ["", "", ""]
    assert watch.too_much(200 * MB, 85)


@pytest.mark.parametrize("limits", [MemoryLimits(hard_mb=1), MemoryLimits(soft_mb=1, grace_seconds=0)])
def test_a_young_process_is_left_alone(limits):
    watch = MemoryWatch(limits, 1000)
    assert watch.too_much(500 * MB, 1059) == ""
    assert watch.too_much(500 * MB, 1060)
