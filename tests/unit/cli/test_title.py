"""The process title, with setproctitle and without."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from offsider.cli.systemd import title_setter


def test_the_title_is_set_if_the_package_is_installed(monkeypatch):
    titles = []
    monkeypatch.setitem(sys.modules, "setproctitle", SimpleNamespace(setproctitle=titles.append))
    title_setter()("offsider 1.0 [0 of 5 busy]")
    assert titles == ["offsider 1.0 [0 of 5 busy]"]


def test_the_title_is_unchanged_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "setproctitle", None)
    title_setter()("anything")
