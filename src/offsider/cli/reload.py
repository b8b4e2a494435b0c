"""``--reload``: which source and configuration files have changed. For development.

Twice a second, compare the modification times of all of them below the current folder and the application's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from offsider.cli.application import folder_beside

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions

PAUSE_SECONDS = 0.5
SUFFIXES = (".py", ".toml", ".yml", ".yaml")
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

Times = Mapping[str, int]


class SourceWatch:
    """Notices changes since the last look.

    Attributes:
        due_at: time of the next look, by the monotonic clock.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._folders = watched_folders(options)
        self._times = times(self._folders)
        self.due_at = 0.0

    def changes(self, now: float) -> list[str]:
        """Return the names of the files that have changed, if a look is due."""
        if now < self.due_at:
            return []
        self.due_at = now + PAUSE_SECONDS
        before, self._times = self._times, times(self._folders)
        return changed(before, self._times)


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
