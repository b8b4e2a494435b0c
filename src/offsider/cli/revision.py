"""The manifest of an application as it was at a git revision: its files are taken out, and loaded in a process.

1. `git archive` writes the files of the revision into a folder of their own, but for those of submodules; nothing is
   checked out.
2. `python -m offsider.cli.revision` loads the application there, with the packages that are installed now, and writes
   its manifest. It refuses an application that was found anywhere else, for example one that is installed.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from offsider.core.errors import ConfigurationError, OffsiderError

GIT_SECONDS = 60
LOAD_SECONDS = 120


def manifest_of_revision(
    revision: str, require: Sequence[str], file: str | None, environment: str | None
) -> dict[str, Any]:
    """The manifest of the application in the current folder, as it was at a revision.

    Args:
        revision: anything that git takes for a commit.
        require: the application; without one that of the revision's own configuration.
        file: the configuration file, below the current folder.
        environment: which of the file's applies.

    Raises:
        ConfigurationError: there is no such revision, or its application could not be loaded.
    """
    top = Path(_git("rev-parse", "--show-toplevel").decode().strip())
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    below = Path.cwd().resolve().relative_to(top.resolve())
    with tempfile.TemporaryDirectory(prefix="offsider-revision-", ignore_cleanup_errors=True) as folder:
        with zipfile.ZipFile(io.BytesIO(_git("-C", str(top), "archive", "--format=zip", commit))) as files:
            files.extractall(Path(folder) / "files")
        here = Path(folder) / "files" / below
        if not here.is_dir():
            raise ConfigurationError(f"{revision} has no folder {below}")
        answer = Path(folder) / "manifest.json"
        _load(revision, here, json.dumps([list(require), file, environment, str(answer)]))
        return cast("dict[str, Any]", json.loads(answer.read_text("utf-8")))


def _git(*words: str) -> bytes:
    command = ("git", *words)
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=GIT_SECONDS).stdout  # noqa: S603  # git's own words
    except subprocess.CalledProcessError as error:
        said = bytes(error.stderr).decode(errors="replace").strip()
        what = said.splitlines()[0] if said else f"there is no revision {words[-1].removesuffix('^{commit}')!r}"
        raise ConfigurationError(f"git: {what}; name a manifest or a revision of this repository") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(f"git could not be asked: {error}") from error


def _load(revision: str, folder: Path, options: str) -> None:
    paths = [str(folder), str(folder / "src"), os.environ.get("PYTHONPATH", "")]
    try:
        ended = subprocess.run(  # noqa: S603  # our own program
            (sys.executable, "-m", "offsider.cli.revision", options),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LOAD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ConfigurationError(
            f"the application of {revision} was not loaded within {LOAD_SECONDS} s: write a manifest of it instead"
        ) from None
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or ["it ended without a word"]
        raise ConfigurationError(f"the application of {revision} could not be loaded: {said[-1]}")


def main(words: Sequence[str]) -> int:
    """Write the manifest of the application in the current folder to a file; what it prints itself is its own."""
    from offsider.cli.declarations import load_declarations
    from offsider.jobs.manifest import manifest

    require, file, environment, answer = json.loads(words[0])
    try:
        config = load_declarations(require, file, environment)
        _check_place(config.worker.require)
        found = manifest(config)
    except OffsiderError as error:
        sys.stderr.write(f"{error}\n".replace("\n", " "))
        return 1
    Path(answer).write_text(json.dumps(found), "utf-8")
    return 0


def _check_place(require: Sequence[str]) -> None:
    here = Path.cwd().resolve()
    for name in require:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not Path(file).resolve().is_relative_to(here):
            raise ConfigurationError(
                f"{name} was found in {file}, and not in the files of the revision: write a manifest in each checkout "
                "(offsider jobs manifest), and compare these"
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
