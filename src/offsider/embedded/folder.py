"""The files of one embedded server, and the locks by which processes agree about it.

======================  ==========================================================================
file                    meaning
======================  ==========================================================================
``lock``                held while a process starts or stops the server: one at a time
``alive``               held by the server itself, as an inherited descriptor, for as long as it lives
``users``               held, shared, by every process that uses the server; the last one stops it
``server.pid``          the server's process id, written by the server
``address.json``        where it listens, written before it starts
``server.conf, .log``   what it was told and what it said
``appendonlydir/``      the data
======================  ==========================================================================

Locks and not process ids decide who lives: the kernel drops them whatever kills a process, they do not
take a zombie for a living server, and a recycled id deceives nobody.
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
    """Names and locks of one server's folder; made when it is not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the embedded server needs a folder {self.path}, which cannot be made: {error}"
            ) from error
        self.conf = self.path / "server.conf"
        self.log = self.path / "server.log"
        self.pid_file = self.path / "server.pid"
        self._address = self.path / "address.json"

    @contextmanager
    def locked(self) -> Generator[None]:
        """One starter or stopper at a time, over all processes."""
        descriptor = self._open("lock")
        try:
            _flock(descriptor, "exclusive", wait=True)
            yield
        finally:
            os.close(descriptor)

    def claim_life(self) -> int | None:
        """The descriptor that a new server shall inherit, or None while a server lives."""
        return self._try("alive", "exclusive")

    def has_server(self) -> bool:
        descriptor = self.claim_life()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def join_users(self) -> int:
        """Count as a user until the descriptor is closed, by whatever."""
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
        """The process id of the living server; to be trusted only while `has_server`."""
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

    def last_words(self, lines: int = 5) -> str:
        """The end of the log, for the error of a server that did not start."""
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
