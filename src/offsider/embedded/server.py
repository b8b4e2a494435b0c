"""One server process that belongs to a folder, shared by every process that names the same folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from offsider.core.errors import ConfigurationError
from offsider.embedded.address import LOOPBACK, Address, Answer, choose
from offsider.embedded.binary import find_server_binary
from offsider.embedded.folder import Folder

START_SECONDS = 10.0
LOAD_SECONDS = 120.0  # reading a big append-only file back
SILENT_SECONDS = 5.0  # a living server that says nothing for so long hangs
STOP_SECONDS = 10.0
PORT_TRIES = 5


class EmbeddedServer:
    """A Valkey or Redis server whose data lives in a folder.

    1. `start` takes the folder's lock. A living server of this folder is used, also one that an earlier
       process left behind when it was killed; one that hangs is killed and replaced.
    2. Otherwise a new one starts on a unix socket in the folder, and on a loopback port when ``port`` is given
       (0: any free one), which is then its url.
       With ``persist`` it appends every write to a file, synced once a second.
    3. It runs in a session of its own: Ctrl-C in a terminal reaches the workers, which still need it.
    4. `stop` leaves it running while other processes use it; the last one ends it, data safely on disk.

    For development, demos and tests. It has no password: the folder's mode, or loopback, is its protection.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        port: int | None = None,
        persist: bool = True,
        config: Mapping[str, str] | None = None,
        binary: Path | None = None,
    ) -> None:
        self._folder = Folder(folder)
        self._port = port
        self._persist = persist
        self._config = dict(config or {})
        self._binary = binary
        self._address = Address()
        self._membership: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def url(self) -> str:
        """What clients connect to, once started."""
        return self._address.url

    @property
    def pid(self) -> int | None:
        """The server's process id while it lives. Under the lock: a look must not disturb a start elsewhere."""
        with self._folder.locked():
            return self._living_pid()

    @property
    def started_here(self) -> bool:
        """False when the server was there already."""
        return self._process is not None

    def start(self) -> Self:
        if self._membership is not None:
            return self
        with self._folder.locked():
            self._address = self._living() or self._launch()
            self._membership = self._folder.join_users()
        return self

    def stop(self) -> None:
        if self._membership is None:
            return
        with self._folder.locked():
            os.close(self._membership)
            self._membership = None
            if not self._folder.has_users():
                self._end()
            self._let_go()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # -- a server that is there already

    def _living(self) -> Address | None:
        if not self._folder.has_server():
            return None
        address = self._folder.read_address()
        if not self._gets_ready(address, self._folder.has_server, SILENT_SECONDS):
            self._kill()
            return None
        if self._port and address.port != self._port:
            raise ConfigurationError(
                f"the server of {self.folder} already listens at {address.url}: "
                f"port expects {address.port or 'to be left out'}, or stop that server first"
            )
        return address

    # -- a new server

    def _launch(self) -> Address:
        binary = self._binary or find_server_binary()
        for _ in range(PORT_TRIES):
            address = choose(self.folder, self._port)
            self._process = self._spawn(binary, address)
            if self._gets_ready(address, self._still_runs, START_SECONDS):
                return address
            self._kill()
            self._process.wait()
            self._process = None
            if self._port != 0:
                break  # only a port that somebody else took meanwhile is worth another try
        raise ConfigurationError(
            f"{binary} did not start in {self.folder}. Its last words:\n{self._folder.last_words()}"
        )

    def _spawn(self, binary: Path, address: Address) -> subprocess.Popen[bytes]:
        life = self._folder.claim_life()
        if life is None:
            raise ConfigurationError(f"another server lives in {self.folder}")
        self._folder.conf.write_text(self._configuration(address))
        self._folder.write_address(address)
        self._folder.pid_file.unlink(missing_ok=True)
        try:
            with self._folder.log.open("wb") as log:
                return subprocess.Popen(  # noqa: S603 - the program the user has, with a file of ours
                    [binary, self._folder.conf],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    pass_fds=[life],
                    start_new_session=True,
                )
        except OSError as error:
            raise ConfigurationError(f"{binary} cannot be run as a server: {error}") from error
        finally:
            os.close(life)

    def _configuration(self, address: Address) -> str:
        settings = {
            "daemonize": "no",
            "dir": _quoted(self.folder),
            "pidfile": _quoted(self._folder.pid_file),
            "bind": LOOPBACK,
            "port": str(address.port),
            "unixsocket": _quoted(address.socket_path),
            "unixsocketperm": "700",
            "save": '""',
            "appendonly": "yes" if self._persist else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
        }
        return "".join(f"{key} {value}\n" for key, value in (settings | self._config).items())

    def _still_runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _gets_ready(self, address: Address, lives: Callable[[], bool], patience_seconds: float) -> bool:
        """Wait until it answers. While it says that it loads its data, patience is longer."""
        begun = time.monotonic()
        while lives():
            answer = address.ask(timeout_seconds=SILENT_SECONDS)
            if answer is Answer.READY:
                return True
            patience = LOAD_SECONDS if answer is Answer.LOADING else patience_seconds
            if time.monotonic() - begun > patience:
                return False
            time.sleep(0.01)
        return False

    # -- the end of it

    def _end(self) -> None:
        """SIGTERM makes the server write what it holds; one that cannot is killed, and the file has its last second."""
        self._signal(signal.SIGTERM)
        if not self._is_gone_within(STOP_SECONDS):
            self._kill()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._is_gone_within(STOP_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        if (pid := self._living_pid()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _living_pid(self) -> int | None:
        return self._folder.server_pid() if self._folder.has_server() else None

    def _is_gone_within(self, seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        while self._folder.has_server():
            if time.monotonic() > give_up:
                return False
            time.sleep(0.01)
        return True

    def _let_go(self) -> None:
        if self._process is None:
            return
        if self._folder.has_server():
            self._process.returncode = 0  # it serves others now; subprocess would warn about a child left behind
        else:
            self._process.wait()
        self._process = None


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
