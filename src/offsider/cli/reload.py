"""``--reload``: a parent process that restarts the worker when a source file has changed. For development.

1. The child has the same command line without ``--reload``.
2. Twice a second, compare the modification times of all source files below the current folder and the application's.
3. After a change, send TERM to the child, so that its jobs have the normal stop. Then start the next child.
4. If a child failed, for example with a syntax error, start it again after the next change. If it exited with code 0,
   it was stopped, and the parent exits too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offsider.cli.application import folder_beside
from offsider.cli.options import configured
from offsider.cli.signals import STOPS, SignalQueue
from offsider.config.application import application
from offsider.logs.setup import logger, setup_logging

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions

PAUSE_SECONDS = 0.5
SUFFIXES = (".py", ".toml", ".yml", ".yaml")
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

Times = Mapping[str, int]


class Reloader:
    """Runs and restarts a worker.

    Args:
        options: the command line.
        words: the words of the command line after ``worker``.
        command: the command to which the options of the worker are added; default: the web application's command.
    """

    def __init__(self, options: WorkerOptions, words: Sequence[str], command: tuple[str, ...] = ()) -> None:
        self._options = options
        self._words = words
        app = application()
        self._command = command or ((sys.executable, "-m", "offsider") if app is None else app.command)
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Run until a stop is requested, and return the exit code."""
        setup_logging(configured(self._options).log)
        signals = SignalQueue()
        signals.install()
        try:
            return self._watch(signals)
        finally:
            signals.close()
            self._stop_child()

    def _watch(self, signals: SignalQueue) -> int:
        folders = watched_folders(self._options)
        before = times(folders)
        self._start_child()
        while True:
            for name in signals.wait(PAUSE_SECONDS):
                self._forward(name)
            code = self._child.poll() if self._child else None
            reap_orphans(self._child)
            if code is not None and (code == 0 or self._stopping):
                return max(0, code)
            now = times(folders)
            if now != before and not self._stopping:
                self._restart(changed(before, now))
                before = now

    def _restart(self, names: list[str]) -> None:
        logger.info("reloading: %s", ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))  # a few
        self._stop_child()
        self._start_child()

    def _start_child(self) -> None:
        environ = os.environ | {"OFFSIDER_WORKER_RELOAD": "false"}
        self._child = subprocess.Popen([*self._command, *arguments(self._words)], env=environ)  # noqa: S603  # ours

    def _stop_child(self) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child.wait()

    def _forward(self, name: str) -> None:
        first = not self._stopping
        self._stopping = self._stopping or name in STOPS
        if self._child is not None and self._child.poll() is None:
            # A terminal sends INT to the child too: a forwarded one would be the second, which stops it at once.
            self._child.send_signal(getattr(signal, f"SIG{'TERM' if first and name == 'INT' else name}"))


def reap_orphans(child: subprocess.Popen[bytes] | None) -> None:
    """As PID 1, reap the processes whose parents have exited, but not the worker."""
    while os.getpid() == 1:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or (child is not None and ended.si_pid == child.pid):
            return
        os.waitpid(ended.si_pid, 0)


def arguments(words: Sequence[str]) -> list[str]:
    """Return the command line of the child: the same without ``--reload``."""
    return ["worker", *(word for word in words if word != "--reload")]


def watched_folders(options: WorkerOptions) -> list[Path]:
    """Return the current folder, and the application's folder if it is outside the current one."""
    folders = [Path.cwd()]
    beside = folder_beside(options.require)
    if beside is not None and not beside.resolve().is_relative_to(folders[0]):
        folders.append(beside.resolve())
    return folders


def times(folders: Iterable[Path]) -> Times:
    """Return the modification time of every source file below the folders."""
    found: dict[str, int] = {}
    for path in source_files(folders):
        try:
            found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116  # thousands of files twice a second
        except OSError:
            continue  # deleted between the two calls
    return found


def source_files(folders: Iterable[Path]) -> Iterator[str]:
    """Yield Python and configuration files, except in hidden folders and installed packages."""
    for top in folders:
        for folder, inside, files in os.walk(top):
            inside[:] = [name for name in inside if name not in SKIPPED and not name.startswith(".")]
            yield from (os.path.join(folder, file) for file in files if file.endswith(SUFFIXES))  # noqa: PTH118  # as above


def changed(before: Times, now: Times) -> list[str]:
    """Return the names of created, deleted and modified files."""
    paths = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    return [Path(path).name for path in paths]
