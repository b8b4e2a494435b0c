"""The folder in which a command starts, under the name that the shell uses for it: ``$PWD``.

A deploy points a symbolic link such as ``current`` at a new folder, or removes the folder of the old release. The
kernel then still has the old folder; ``$PWD`` names the new one.
"""

from __future__ import annotations

import os
from pathlib import Path

from offsider.core.errors import ConfigurationError


def start_folder() -> str:
    """Return ``$PWD`` if it is this folder's name, else the kernel's name of the folder."""
    named = os.environ.get("PWD", "")
    try:
        if named and os.path.samefile(named, "."):  # noqa: PTH121  # $PWD may contain any characters
            return named
    except (OSError, ValueError):
        pass
    return str(Path.cwd())


def leave_removed_folder() -> None:
    """If the current folder has been removed, change into the one that ``$PWD`` names now.

    Raises:
        ConfigurationError: there is none.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        named = os.environ.get("PWD", "")
        try:
            os.chdir(named)
        except (OSError, ValueError):
            raise ConfigurationError(
                f"the current folder {named} has been removed: change into an existing one, for example cd /"
            ) from None
