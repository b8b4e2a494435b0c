"""When a process holds too much memory."""

from __future__ import annotations

from offsider.worker.memory_limits import MemoryWatch

MB = 1024


def test_without_a_limit_any_size_is_allowed():
    watch = MemoryWatch(0)
    assert [watch.too_much(10**9, now) for now in (0, 10**6)] == ["", ""]


def test_above_the_limit_the_worker_is_replaced_after_a_minute():
    watch = MemoryWatch(100)
    assert [watch.too_much(200 * MB, now) for now in (70, 100, 129)] == ["", "", ""]
    assert watch.too_much(200 * MB, 130) == "it has used more than memory_max_mb = 100 for 60 s (200 MB now)"


def test_a_process_that_drops_below_the_limit_gets_a_new_minute():
    watch = MemoryWatch(100)
    watch.too_much(200 * MB, 70)
    watch.too_much(100 * MB, 125)
    assert [watch.too_much(200 * MB, now) for now in (130, 189)] == ["", ""]
    assert watch.too_much(200 * MB, 190)
