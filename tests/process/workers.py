"""Worker processes of the tests: started, watched, signalled, and always ended.

worker = workers.start("-c", "2")        waits until its log reports that it runs
worker.send("TERM")
assert worker.ended(seconds=10) == 0     its exit code
assert "stopping" in worker.output
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.process.ledger import VARIABLE, Ledger
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "tests.process.jobs"
MODULE = (sys.executable, "-m", "offsider", "worker")
RUNNING = re.compile(r"\brunning <Capsule .* as (\S+:(\d+):[0-9a-f]{12})\b")
START_SECONDS = 90.0
#: With this variable coverage makes child processes measure themselves.
MEASURED = "COVERAGE_PROCESS_CONFIG"


class Worker:
    """A parent and its worker, or workers. Their output, errors included, is written to a file."""

    def __init__(self, command: Sequence[str], file: Path, environ: Mapping[str, str], folder: Path) -> None:
        self.file = file
        with file.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environ,
                start_new_session=True,  # so that children of it can be ended with it
            )

    @property
    def parent(self) -> int:
        """The process that was started; signals of `send` go there."""
        return self.process.pid

    @property
    def pid(self) -> int:
        """The first process that runs jobs."""
        found = RUNNING.search(self.output)
        return int(found[2]) if found else wait_for(lambda: children_of(self.parent))[0]

    @property
    def output(self) -> str:
        return self.file.read_text(errors="replace")

    @property
    def identity(self) -> str:
        """The identity it started under."""
        found = RUNNING.search(self.output)
        assert found, self.output
        return found[1]

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def until_running(self) -> None:
        self.until_says("running <Capsule", START_SECONDS)

    def until_says(self, text: str, seconds: float = 60.0, *, times: int = 1) -> str:
        """Wait for words in the output; returns the output."""
        try:
            wait_for(lambda: self.output.count(text) >= times or not self.runs, seconds)
        except AssertionError:
            raise AssertionError(f"not said within {seconds:g} s: {text!r}\n{self.output}") from None
        assert self.output.count(text) >= times, f"ended without {text!r}:\n{self.output}"
        return self.output

    def send(self, name: str) -> None:
        """Signal the process. STOP and CONT are for the whole group, as when a machine is suspended."""
        number = getattr(signal, f"SIG{name}")
        if name in {"STOP", "CONT"}:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Like a machine failure: no last words, and no parent that sees the end."""
        self.close()

    def kill_alone(self) -> None:
        """As the kernel does when memory is short: the process that runs jobs and no other."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not exists(pid))

    def ended(self, seconds: float = 60.0) -> int:
        """Wait for the end; returns the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.process.args} still runs after {seconds:g} s:\n{self.output}") from None

    def stopped(self, seconds: float = 60.0) -> str:
        """Send TERM, expect a clean end, return the output."""
        self.send("TERM")
        assert self.ended(seconds) == 0, self.output
        return self.output

    def close(self) -> None:
        """End the whole group. A worker that has not quite ended would still take a job, by the BLMOVE it waits in."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # SIGKILL also ends what SIGSTOP holds
        self.process.wait()
        wait_for(lambda: not group_of(self.process.pid))


def exists(pid: int) -> bool:
    """Whether there is such a process, also one that has not been reaped."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def children_of(pid: int) -> list[int]:
    """The children of a process with one thread (Linux)."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def group_of(group: int) -> list[int]:
    """The processes of a process group, without those that have ended and are not reaped (Linux)."""
    found: list[int] = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _parent, number, *others = file.read_text().rpartition(")")[2].split()
            threads = int(others[14])  # those of a killed process end one by one, and any of them keeps its files open
            if int(number) == group and (state not in "ZX" or threads > 1):
                found.append(int(file.parent.name))
    return found


class Workers:
    """Starts workers that run against one server and note into one ledger.

    Args:
        folder: for application modules, output and ledger; the workers' current folder.
        url: of the server.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.ledger = Ledger(folder / "ledger")
        self._started: list[Worker] = []

    def write(self, text: str, name: str = "app.py") -> str:
        """Write an application module into the current folder of the workers; returns its module name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path.stem

    def start(
        self,
        *options: str,
        app: str | None = APPLICATION,
        text: str | None = None,
        environ: Mapping[str, str | None] | None = None,
        command: Sequence[str] = MODULE,
        folder: Path | None = None,
        wait: bool = True,
        measured: bool = True,
    ) -> Worker:
        """Start a worker.

        Args:
            options: of the command line.
            app: the value of ``-r``; None omits it.
            text: an application in place of ``app``.
            environ: variables to set; None removes one.
            command: the program and its first words.
            folder: its current folder.
            wait: until its log reports that it runs.
            measured: let coverage trace it; a traced job cannot be interrupted on CPython 3.11.
        """
        if text is not None:
            app = self.write(text)
        words = [*command, *(("-r", app) if app else ()), *options]
        file = self.folder / f"worker-{len(self._started)}.log"
        unmeasured = {} if measured else {MEASURED: None}
        worker = Worker(words, file, self._environ({**unmeasured, **(environ or {})}), folder or self.folder)
        self._started.append(worker)
        if wait:
            worker.until_running()
        return worker

    def _environ(self, given: Mapping[str, str | None]) -> dict[str, str]:
        environ: dict[str, str | None] = {
            **os.environ,
            "REDIS_URL": self.url,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            VARIABLE: str(self.ledger.path),
            **given,
        }
        return {name: value for name, value in environ.items() if value is not None}

    def close(self) -> None:
        """End all running processes. A measured one may end by itself first: only then it saves its coverage."""
        running = [worker for worker in self._started if worker.runs]
        if MEASURED in os.environ:
            for worker in running:
                worker.send("TERM")
            with suppress(AssertionError):
                wait_for(lambda: not any(worker.runs for worker in running), 2)
        for worker in self._started:
            worker.close()
