"""The notifications sent to systemd."""

from __future__ import annotations

import os
import socket
import sys
from types import SimpleNamespace

import pytest

from offsider.cli.status import notify, title_setter, watchdog_seconds


def test_a_message_reaches_the_socket():
    # A relative path: the whole one of pytest's folder may be too long for a socket.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0offsider-test-{os.getpid()}")
        notify("READY=1", {"NOTIFY_SOCKET": f"@offsider-test-{os.getpid()}"})
        assert listener.recv(100) == b"READY=1"


def test_a_missing_socket_is_logged(caplog):
    notify("READY=1", {})
    notify("READY=1", {"NOTIFY_SOCKET": "/nowhere/at/all"})
    assert "cannot notify systemd of READY=1" in caplog.text


@pytest.mark.parametrize(
    "environ, seconds",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "20000000"}, 10.0),
        ({"WATCHDOG_USEC": "1000000"}, 0.5),
        ({"WATCHDOG_USEC": "999999"}, None),
        ({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
    ],
)
def test_the_watchdog_is_notified_at_half_its_interval(environ, seconds, caplog):
    assert watchdog_seconds(environ) == seconds
    assert ("too short and is ignored" in caplog.text) == (environ.get("WATCHDOG_USEC") == "999999")


def test_the_title_is_set_if_the_package_is_installed(monkeypatch):
    titles = []
    monkeypatch.setitem(sys.modules, "setproctitle", SimpleNamespace(setproctitle=titles.append))
    title_setter()("offsider 1.0 [0 of 5 busy]")
    assert titles == ["offsider 1.0 [0 of 5 busy]"]


def test_the_title_is_unchanged_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "setproctitle", None)
    title_setter()("anything")
