"""``offsider top`` as a command: without Textual, and with a configuration that is wrong."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from tests.waiting import wait_for

WITHOUT_TEXTUAL = """
import sys
sys.modules["textual"] = None
sys.modules["textual.app"] = None
from offsider.cli.main import main
main(["top"])
"""


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """The configurations that were shown, in place of the screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    seen = []

    class Screen:
        def __init__(self, config, interval):
            seen.append(config)

        def run(self): ...

    monkeypatch.setattr("offsider.cli.top.app.Top", Screen)
    yield seen
    sys.modules.pop("shop_of_top", None)


def test_extensions_of_the_application_see_actions_in_top(shown, tmp_path):
    (tmp_path / "shop_of_top.py").write_text(
        "from offsider.ext.unique import Unique\n\ndef configure(config):\n    config.use(Unique())\n"
    )
    assert CliRunner().invoke(main, ["top", "-r", "shop_of_top"]).exit_code == 0
    assert [list(here.config.extensions) for here in shown] == [["unique"]]
    assert CliRunner().invoke(main, ["top", "-r", "nowhere_to_be_found"]).exit_code == 1
    assert len(shown) == 1


def test_without_textual_it_names_the_extra():
    ended = run("-c", WITHOUT_TEXTUAL)
    assert ended.returncode == 1
    assert ended.stderr == 'offsider: offsider top needs Textual: pip install "offsider[tui]"\n'


def test_in_a_real_terminal_it_shows_the_state_and_ends_at_q(embedded_url):
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "offsider", "top"]
    environ = os.environ | {"REDIS_URL": embedded_url, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, env=environ, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen = bytearray()
    try:
        wait_for(lambda: b"no worker is registered" in _read(leader, seen), seconds=60)
        os.write(leader, b"q")
        wait_for(lambda: _read(leader, seen) is not None and process.poll() is not None, seconds=60)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
    assert process.returncode == 0


def _read(leader: int, seen: bytearray) -> bytearray:
    """Everything sent to the terminal up to now."""
    readable, _, _ = select.select([leader], [], [], 0.05)
    with suppress(OSError):  # the other end is closed
        if readable:
            seen += os.read(leader, 65536)
    return seen
