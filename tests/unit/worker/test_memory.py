"""When a process holds too much memory."""

from __future__ import annotations

import builtins
import sys

from offsider.worker.memory import MemoryWatch, resident_kilobytes

MB = 1024


def test_without_a_limit_any_size_is_allowed():
    watch = MemoryWatch()
    assert [watch.too_much(0, 10**9, now) for now in (0, 10**6)] == ["", ""]


def test_above_the_limit_the_worker_is_replaced_after_a_minute():
    watch = MemoryWatch()
    assert [watch.too_much(100, 200 * MB, now) for now in (70, 100, 129)] == ["", "", ""]
    assert watch.too_much(100, 200 * MB, 130) == "it has used more than memory_max_mb = 100 for 60 s (200 MB now)"


def test_a_process_that_drops_below_the_limit_gets_a_new_minute():
    watch = MemoryWatch()
    sizes = ((70, 200), (125, 100), (130, 200), (189, 200))
    assert [watch.too_much(100, size * MB, now) for now, size in sizes] == ["", "", "", ""]
    assert watch.too_much(100, 200 * MB, 190)


def test_this_process_uses_some_megabytes():
    assert 5_000 < resident_kilobytes() < 50_000_000


def test_without_proc_the_peak_is_returned(monkeypatch):
    def no_proc(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", no_proc)
    assert resident_kilobytes() > 5_000
    monkeypatch.setattr(sys, "platform", "darwin")
    assert resident_kilobytes() > 0


def test_unknown_memory_is_0(monkeypatch):
    def no_proc(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr(builtins, "open", no_proc)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert resident_kilobytes() == 0
