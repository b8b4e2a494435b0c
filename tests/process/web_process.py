"""`offsider web` as a process of its own, at a free port of loopback: started, read, and in the end always gone.

web = WebProcess(folder, redis_url)
web.url                      http://127.0.0.1:PORT, where it listens already
web.close()
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0
LISTENS = re.compile(r"offsider web: (http://127\.0\.0\.1:(\d+))\S*\n")


class WebProcess:
    """The pages of one server.

    Args:
        folder: for its output.
        redis_url: of the server.
        options: of the command line.
        environ: additional variables.
    """

    def __init__(self, folder: Path, redis_url: str, *options: str, **environ: str) -> None:
        self._log = folder / f"web-{len([*folder.glob('web-*.log')])}.log"
        settings = {"REDIS_URL": redis_url, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "offsider", "web", "--host", "127.0.0.1", "--port", "0", *options]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **settings, **environ},
            )
        try:
            found = wait_for(lambda: LISTENS.search(self.output) or not self.runs, START_SECONDS)
            assert isinstance(found, re.Match), "it ended"
        except AssertionError as error:
            self.close()
            raise AssertionError(f"`offsider web` did not start: {error}\n{self.output}") from None
        self.url, self.port = found[1], int(found[2])

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """TERM; after ten seconds KILL."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
