"""A terminal for the commands of a page: runs them in a folder, with this interpreter's programs.

terminal = Terminal(folder, REDIS_URL=url)
terminal.run("python manage.py migrate")      returns the output; a failure shows the log of the started processes
worker = terminal.start("offsider worker")    runs in the background
terminal.close()
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.process.workers import MEASURED


class Terminal:
    """Runs commands with bash. The output of background processes is appended to the file ``log``."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environ = {key: value for key, value in os.environ.items() if key != MEASURED}
        self._environ |= {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **environ}
        self._environ["OFFSIDER_CLIENT_PUSH_TIMEOUT_SECONDS"] = "10"  # a busy machine may need a second to connect
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, command: str) -> str:
        ended = subprocess.run(
            ["bash", "-euc", command], cwd=self.folder, env=self._environ, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr + self.log
        print(ended.stdout)  # pytest shows it if the test fails
        return ended.stdout

    def start(self, command: str, **environ: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-euc", command],
                cwd=self.folder,
                env=self._environ | environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    @property
    def log(self) -> str:
        file = self.folder / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def close(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        print(self.log)
