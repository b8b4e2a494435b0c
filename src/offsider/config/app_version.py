"""The version of the application in this process: the configured one, or the commit that is checked out."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

#: The value of ``client.app_version`` that means the commit.
COMMIT = "git"

_CHARACTERS = 10
_HASH = re.compile(r"[0-9a-f]{40,64}")


def app_version(told: str) -> str:
    """Return the version for payloads and heartbeats, from ``client.app_version``; empty without one."""
    return _of_current_folder() if told == COMMIT else told


@cache
def _of_current_folder() -> str:
    """Return the commit, read once: a later checkout does not change the code that this process runs."""
    try:
        return commit_of(Path.cwd())
    except FileNotFoundError:  # the folder was deleted
        return ""


def commit_of(folder: Path) -> str:
    """Return the first ten digits of the commit that is checked out in a folder or one of its parents; else empty.

    It reads the files of the repository and does not run git, which is slow to start and may not be installed.
    """
    try:
        git = _repository(folder)
        found = "" if git is None else _head(git)
    except (OSError, UnicodeDecodeError):
        return ""
    return found[:_CHARACTERS] if _HASH.fullmatch(found) else ""


def _repository(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        git = place / ".git"
        if git.is_dir():
            return git
        if git.is_file():  # a worktree, or a submodule
            return place / git.read_text("utf-8").removeprefix("gitdir:").strip()
    return None


def _head(git: Path) -> str:
    head = (git / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref:"):
        return head
    branch = head.removeprefix("ref:").strip()
    shared = git / "commondir"  # only a worktree has it; its branches are in the main repository
    common = git / shared.read_text("utf-8").strip() if shared.is_file() else git
    for place in (git, common):
        if (place / branch).is_file():
            return (place / branch).read_text("utf-8").strip()
    return _packed(common / "packed-refs", branch)


def _packed(refs: Path, branch: str) -> str:
    for line in refs.read_text("utf-8").splitlines():
        commit, _, name = line.partition(" ")
        if name == branch:
            return commit
    return ""
