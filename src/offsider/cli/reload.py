"""``--reload``: a parent process that starts the worker anew when a source file has changed. For development.

1. The child is the same command line without ``--reload``.
2. Twice a second the times of all Python files below the current folder and the application's are compared.
3. After a change the child gets a TERM: its jobs have their normal stop. Then the next child starts.
4. A child that failed, for example over a syntax error, is started again after the next change. One that ended well
   was told to stop, and so the parent ends too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from offsider.cli.application import folder_beside
from offsider.cli.boot import configured
from offsider.cli.signals import SignalQueue
from offsider.wiring.logs import logger, setup_logging

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions

PAUSE_SECONDS = 0.5
SUFFIXES = (".py", ".toml", ".yml", ".yaml")
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

Times = Mapping[str, int]


class Reloader:
    """Runs the worker of a command line again and again.

    Args:
        options: the command line.
        command: what starts a worker; its options are added.
    """

    def __init__(self, options: WorkerOptions, command: tuple[str, ...] = (sys.executable, "-m", "offsider")) -> None:
        self._options = options
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Returns the exit code once a stop was asked for."""
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
        self._child = subprocess.Popen([*self._command, *arguments(self._options)], env=environ)  # noqa: S603  # ours

    def _stop_child(self) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child.wait()

    def _forward(self, name: str) -> None:
        self._stopping = self._stopping or name in {"TERM", "INT"}
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(getattr(signal, f"SIG{name}"))


def arguments(options: WorkerOptions) -> list[str]:
    """The command line of the child: the same without ``--reload``."""
    words = ["worker"]
    words += [word for target in options.require for word in ("-r", target)]
    words += [word for queue in options.queue for word in ("-q", queue)]
    words += [word for group in options.group for word in ("-G", group)]
    valued = {
        "-c": options.concurrency,
        "-C": options.config,
        "-e": options.environment,
        "-g": options.tag,
        "-t": options.timeout,
        "--health": options.health,
        "-p": options.processes,
    }
    words += [word for option, value in valued.items() if value is not None for word in (option, value)]
    words += ["--no-keeper"] * options.no_keeper + ["--preload"] * options.preload
    return words + ["-v"] * options.verbose + ["--embedded"] * options.embedded


def watched_folders(options: WorkerOptions) -> list[Path]:
    """The current folder, and the application's when it lies elsewhere."""
    folders = [Path.cwd()]
    beside = folder_beside(options.require)
    if beside is not None and not beside.resolve().is_relative_to(folders[0]):
        folders.append(beside.resolve())
    return folders


def times(folders: Iterable[Path]) -> Times:
    """File to time of its last change, for every source file below the folders."""
    found: dict[str, int] = {}
    for path in source_files(folders):
        try:
            found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116  # thousands of files twice a second
        except OSError:
            continue  # gone between the two calls
    return found


def source_files(folders: Iterable[Path]) -> Iterator[str]:
    """Python files and configuration files, without those of hidden folders and installed packages."""
    for top in folders:
        for folder, inside, files in os.walk(top):
            inside[:] = [name for name in inside if name not in SKIPPED and not name.startswith(".")]
            yield from (os.path.join(folder, file) for file in files if file.endswith(SUFFIXES))  # noqa: PTH118  # as above


def changed(before: Times, now: Times) -> list[str]:
    """The names of files that came, went or changed."""
    paths = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    return [Path(path).name for path in paths]
