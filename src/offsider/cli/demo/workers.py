"""The worker processes of the demo: real ones, started as a user would start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from offsider.cli.demo import jobs

QUEUES = ("texts,4", "words,3", "post,3", "summaries,2", "covers,1")
STOP_SECONDS = 10


class Worker:
    """One worker process; its log goes to a file.

    Args:
        number: from 1.
        folder: of the demo; also where the process runs, so that no settings file of the user's is found.
        url: of the server.
        concurrency: jobs at a time.
    """

    def __init__(self, number: int, folder: Path, url: str, concurrency: int) -> None:
        self.name = f"worker {number}"
        self.log = folder / f"worker-{number}.log"
        queues = [word for queue in QUEUES for word in ("-q", queue)]
        command = [sys.executable, "-m", "offsider", "worker", "-r", jobs.__name__, *queues]
        command += ["-c", str(concurrency), "-t", str(STOP_SECONDS - 2), "-g", f"demo {number}"]
        ours = {key: value for key, value in os.environ.items() if not key.startswith("OFFSIDER_")}
        ours |= {"OFFSIDER_REDIS_URL": url, jobs.FOLDER_VARIABLE: str(folder), "OFFSIDER_LOG_FORMAT": "plain"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this program itself
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=ours,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops its workers in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end that TERM promised; a worker that does not keep it is killed."""
        try:
            return self._process.wait(STOP_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def last_words(self, lines: int = 5) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
