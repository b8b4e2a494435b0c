"""A PostgreSQL server for tests: a cluster of its own in a temporary folder, on a unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: PostgreSQL refuses to run as root.
USER = "nobody" if os.geteuid() == 0 else None
#: A server of tests loses nothing that matters.
FAST = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "listen_addresses=", "-c", "max_connections=50")


def binaries() -> Path | None:
    """The folder of `initdb` and `postgres`; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@contextmanager
def server() -> Iterator[str]:
    """Run a server; yields the folder of its socket, psycopg's host. The user is ``postgres``, without a password."""
    folder = binaries()
    assert folder is not None
    with tempfile.TemporaryDirectory(prefix="offsider-pg-", ignore_cleanup_errors=True) as name:
        if USER:
            shutil.chown(name, USER)
        data = f"{name}/data"
        made = [folder / "initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "-D", data]
        _run(*made)
        control = [folder / "pg_ctl", "-D", data, "-s", "-w"]
        _run(*control, "-o", " ".join((*FAST, "-k", name)), "-l", f"{name}/log", "start")
        try:
            yield name
        finally:
            _run(*control, "-m", "immediate", "stop")


def _run(*command: str | Path) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, user=USER, cwd="/")
    assert ended.returncode == 0, ended.stderr
