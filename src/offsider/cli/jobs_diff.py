"""``offsider jobs diff``: find stored jobs that a new release could not run, in CI or before a deploy."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from offsider.cli.command import APPLICATION, MAX_LETTERS, SETTINGS, ConnectionOptions, connected
from offsider.cli.text import plain, say
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.fleet.manifest import GUIDE, incompatible, manifest, names, read
from offsider.inspector.stored_jobs import stored_jobs

if TYPE_CHECKING:
    from offsider.fleet.manifest import Incompatible
    from offsider.inspector.job_record import JobRecord
    from offsider.inspector.stored_jobs import StoredJobs

UNSAFE, ALLOWED, SAFE = "UNSAFE", "allowed", "safe"


@click.command(context_settings=SETTINGS)
@click.argument("old")
@click.argument("new", required=False)
@APPLICATION
@connected()
@click.option("--allow", "allowed", multiple=True, metavar="NAME", help="Accept the change of this job.")
@click.option(
    "--redis",
    "counting",
    is_flag=True,
    help="Count the stored jobs that each change affects; a change that affects none is safe.",
)
def diff(connection: ConnectionOptions, *, old: str, new: str | None, allowed: tuple[str, ...], counting: bool) -> int:
    """List the jobs of release OLD that release NEW could not run, and exit with 1 if there are any.

    OLD and NEW are files that `offsider jobs manifest` wrote, or git revisions whose application is loaded. NEW
    defaults to the application in the current folder.
    """
    before, after = (_manifest(name, connection) for name in (old, new))
    found = incompatible(before, after)
    _check_allowed(allowed, {name for job in (*before["jobs"], *after["jobs"]) for name in names(job)})
    stored = _count(found, connection) if counting else {}
    verdicts: Counter[str] = Counter()
    for change in found:
        verdict = _verdict(change.name, allowed, stored)
        verdicts[verdict] += 1
        say(f"{verdict:<8}{change.name}")
        lines = [f"old: {change.old}", f"new: {change.new or 'none'}", f"{change.reason}; see {GUIDE}"]
        lines += [_stored(stored[change.name])] if counting else []
        for line in lines:
            say(plain(line, MAX_LETTERS), start="        ")
    others = [f"{verdicts[word]} {word}" for word in (SAFE, ALLOWED) if verdicts[word]]
    say(", ".join([counted(verdicts[UNSAFE], "unsafe change"), *others]))
    return 1 if verdicts[UNSAFE] else 0


def _manifest(name: str | None, connection: ConnectionOptions) -> dict[str, Any]:
    if name is None:
        return manifest(connection.load_declarations())
    if not Path(name).is_file():
        return manifest_of_revision(name, connection)
    try:
        return read(Path(name).read_text(encoding="utf-8", errors="replace"), name)
    except OSError as error:
        raise ConfigurationError(str(error)) from None


def _check_allowed(allowed: Sequence[str], known: Collection[str]) -> None:
    for name in allowed:
        if name not in known:
            raise ConfigurationError(f"--allow {name}: job not found in either release{suggest(name, known)}")


def _count(changes: Sequence[Incompatible], connection: ConnectionOptions) -> dict[str, StoredJobs]:
    tests = {change.name: partial(_runs, change) for change in changes}
    return stored_jobs(connection.installation(), tests) if tests else {}


def _runs(change: Incompatible, record: JobRecord) -> bool | None:
    return change.runs(record.args, record.kwargs, record["signature"])


def _verdict(name: str, allowed: Sequence[str], stored: Mapping[str, StoredJobs]) -> str:
    if name in allowed:
        return ALLOWED
    return SAFE if name in stored and not stored[name].unfit else UNSAFE


def _stored(stored: StoredJobs) -> str:
    places = ", ".join(f"{count} in {place}" for place, count in stored.places.items())
    return f"stored: {places or 'none'}; {counted(stored.unfit, 'job')} affected (dead jobs not counted)"


# ------------------------------------------------------------------------------- a git revision
# Its files are extracted with `git archive`, and its application is loaded in another process: see the end of the file.

ANSWER = ".offsider-manifest.json"
TIMEOUT_SECONDS = 120


def manifest_of_revision(revision: str, connection: ConnectionOptions) -> dict[str, Any]:
    """Load the application of the current folder as of a revision, with the same options in another process."""
    with tempfile.TemporaryDirectory(prefix="offsider-revision-", ignore_cleanup_errors=True) as folder:
        paths = [folder, f"{folder}/src", os.environ.get("PYTHONPATH", folder)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            files = _run("git", "archive", "--format=zip", "--end-of-options", f"{revision}^{{commit}}")
            zipfile.ZipFile(io.BytesIO(files)).extractall(folder)
            options = json.dumps(asdict(connection))
            _run(sys.executable, "-m", "offsider.cli.jobs_diff", options, cwd=folder, env=environ)
        except (OSError, subprocess.SubprocessError) as error:
            output = bytes(getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or str(error)
            reason = f"cannot be loaded as a git revision: {output.splitlines()[-1]}"
            raise ConfigurationError(f"{revision} is not a manifest file, and {reason}") from None
        return cast("dict[str, Any]", json.loads(Path(folder, ANSWER).read_text("utf-8")))


def _run(*command: str, cwd: str = ".", env: dict[str, str] | None = None) -> bytes:
    ended = subprocess.run(  # noqa: S603  # git, or this module
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=TIMEOUT_SECONDS
    )
    return ended.stdout


if __name__ == "__main__":
    here = Path.cwd()
    try:
        config = ConnectionOptions(**json.loads(sys.argv[1])).load_declarations()
        for name in config.worker.require:
            path = Path(getattr(sys.modules.get(name), "__file__", None) or name).resolve()
            if not path.is_relative_to(here.resolve()):
                # An installed application is the current one: a comparison with itself would hide every change.
                raise ConfigurationError(
                    f"{name} was loaded from {path}, not from the git revision: compare files of `offsider jobs "
                    "manifest` instead"
                )
        (here / ANSWER).write_text(json.dumps(manifest(config)), "utf-8")
    except OffsiderError as error:
        sys.exit(" ".join(str(error).split()))
