"""The files of one embedded server, and the locks that coordinate the processes that use it.

======================  ==========================================================================
file                    meaning
======================  ==========================================================================
``lock``                held while a process starts or stops the server: one at a time
``alive``               held by the server itself, as an inherited descriptor, for as long as it lives
``users``               held, shared, by every process that uses the server; the last one stops it
``server.pid``          process ID of the server, written by the server
``address.json``        its address, written before the start
``server.conf, .log``   its configuration and its log
``appendonlydir/``      the data
======================  ==========================================================================

Locks decide whether a process is alive, not process IDs: the kernel releases them however a process dies, a zombie
holds none, and a reused process ID does not matter.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from offsider.core.errors import ConfigurationError
from offsider.embedded.address import Address


class Folder:
    """Files and locks of a server's folder, which is created if it does not exist."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot create the folder {self.path} of the embedded server: {error}") from error
        self.conf = self.path / "server.conf"
        self.log = self.path / "server.log"
        self.pid_file = self.path / "server.pid"
        self._address = self.path / "address.json"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Serialize starts and stops of all processes."""
        descriptor = self._open("lock")
        try:
            _flock(descriptor, "exclusive", wait=True)
            yield
        finally:
            os.close(descriptor)

    def claim_life(self) -> int | None:
        """Return the file descriptor for a new server to inherit, or None while a server is alive."""
        return self._try("alive", "exclusive")

    def has_server(self) -> bool:
        descriptor = self.claim_life()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def join_users(self) -> int:
        """Register as a user until the returned file descriptor is closed, for any reason."""
        descriptor = self._open("users")
        _flock(descriptor, "shared", wait=True)
        return descriptor

    def has_users(self) -> bool:
        descriptor = self._try("users", "exclusive")
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def server_pid(self) -> int | None:
        """Return the process ID of the live server; valid only while `has_server`."""
        try:
            return int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None

    def read_address(self) -> Address:
        try:
            return Address(**json.loads(self._address.read_text()))
        except (OSError, ValueError, TypeError):
            return Address()

    def write_address(self, address: Address) -> None:
        self._address.write_text(json.dumps({"socket_path": address.socket_path, "port": address.port}))

    def log_tail(self, lines: int = 5) -> str:
        """Return the last lines of the log, for the error of a failed start."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def _try(self, name: str, kind: Literal["shared", "exclusive"]) -> int | None:
        descriptor = self._open(name)
        try:
            _flock(descriptor, kind, wait=False)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def _open(self, name: str) -> int:
        return os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)


def _flock(descriptor: int, kind: Literal["shared", "exclusive"], *, wait: bool) -> None:
    import fcntl  # POSIX only, like every server binary; importing offsider must work without it

    how = fcntl.LOCK_SH if kind == "shared" else fcntl.LOCK_EX
    fcntl.flock(descriptor, how if wait else how | fcntl.LOCK_NB)
