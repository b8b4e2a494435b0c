"""One number for the page of processes."""

import builtins
import sys

from offsider.worker.resident_memory import resident_kilobytes


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
