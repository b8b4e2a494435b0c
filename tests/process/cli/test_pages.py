"""The web UI of the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import httpx
import pytest

from offsider.cli.demo.pages import Pages
from tests.waiting import wait_for


@pytest.fixture
def pages(redis_url, tmp_path):
    made = Pages(tmp_path, redis_url)
    yield made
    made.stop()


def test_they_are_served_until_the_demo_stops_them(pages):
    wait_for(lambda: pages.address)
    assert httpx.get(pages.address, headers={"Accept": "text/html"}).status_code == 200
    assert pages.exit_code is None
    pages.stop()
    assert pages.exit_code == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(pages.address)


def test_pages_that_cannot_start_say_why(tmp_path):
    pages = Pages(tmp_path, "nonsense://")
    wait_for(lambda: pages.exit_code is not None)
    assert (pages.address, pages.exit_code) == ("", 1)
    assert "redis.url expects a URL" in pages.last_words()
    pages.stop()


STARTER = """
import sys
from pathlib import Path
from offsider.cli.demo.pages import Pages
pages = Pages(Path(sys.argv[1]), sys.argv[2])
while not pages.address:
    assert pages.exit_code is None, pages.log.read_text()
print(pages.address, flush=True)
sys.stdin.read()
"""


def test_they_end_when_the_demo_is_killed(redis_url, tmp_path):
    command = [sys.executable, "-c", STARTER, str(tmp_path), redis_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        address = starter.stdout.readline().strip()
        assert httpx.get(address).status_code == 200
        os.kill(starter.pid, signal.SIGKILL)

    def gone() -> bool:
        try:
            httpx.get(address)
        except httpx.TransportError:
            return True
        return False

    wait_for(gone)
