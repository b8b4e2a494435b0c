"""Talking to Redis: a pool of connections of redis-py, driven at the packed-command level.

redis-py keeps doing what it is good at (TLS, ACL, Sentinel, parsing); its retries, health checks and
maintenance notifications are off, because a retried LPUSH or LMOVE doubles or strands jobs. Whether a
command may be sent again is decided by the caller, who sees in the error whether it was ``ambiguous``.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from offsider.core.errors import ConfigurationError, OffsiderError, RedisRefused, RedisUnavailable
from offsider.storage.failures import REROUTE, translate
from offsider.storage.keys import Keys
from offsider.storage.scripts import Argument, Command, Script

if TYPE_CHECKING:
    from redis.exceptions import RedisError

DEFAULT_URL = "redis://localhost:6379/0"
#: A connection that was used so lately is not looked at before it is used again.
FRESH_SECONDS = 0.1


@dataclass
class RedisSettings:
    """Where the server is and how to talk to it.

    Attributes:
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``; user, password and database may be part of it.
        key_prefix: put before every key.
        wire_version: the major version of Sidekiq whose form is written: 6, 7 or 8.
        sentinels: ``host:port`` of each Sentinel; then ``sentinel_name`` is the name of the master.
    """

    url: str = DEFAULT_URL
    key_prefix: str = ""
    wire_version: int = 8
    socket_timeout_seconds: float = 5.0
    connect_timeout_seconds: float = 3.0
    pool_wait_seconds: float = 1.0
    sentinels: tuple[str, ...] = ()
    sentinel_name: str = ""
    sentinel_password: str = ""
    username: str = ""
    password: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_verify: bool = True

    @property
    def redacted_url(self) -> str:
        """The URL as it may be logged: without its password."""
        if self.sentinels:
            return f"sentinel://{','.join(self.sentinels)}/{self.sentinel_name}"
        return redact(self.url)


def redact(url: str) -> str:
    """``url`` with its password replaced by stars, and without a query (which may hold one)."""
    parts = urlsplit(url)
    netloc = parts.netloc
    if "@" in netloc:
        login, _, host = netloc.rpartition("@")
        netloc = f"{login.partition(':')[0]}:***@{host}" if ":" in login else f"{login}@{host}"
    return f"{parts.scheme}://{netloc}{parts.path}"


def connection_options(settings: RedisSettings, *, retry: object, protocol: int = 2) -> dict[str, Any]:
    """What every connection is made with, as keyword arguments of redis-py."""
    options: dict[str, Any] = {
        "protocol": protocol,
        "retry": retry,
        "health_check_interval": 0,
        "socket_timeout": settings.socket_timeout_seconds,
        "socket_connect_timeout": settings.connect_timeout_seconds,
    }
    if settings.username:
        options["username"] = settings.username
    if settings.password:
        options["password"] = settings.password
    if settings.url.startswith("rediss://"):
        options |= _tls_options(settings)
    return options


def _tls_options(settings: RedisSettings) -> dict[str, Any]:
    options: dict[str, Any] = {"ssl_cert_reqs": "required" if settings.tls_verify else "none"}
    if not settings.tls_verify:
        options["ssl_check_hostname"] = False
    files = {
        "ssl_ca_certs": settings.tls_ca_file,
        "ssl_certfile": settings.tls_cert_file,
        "ssl_keyfile": settings.tls_key_file,
    }
    return options | {name: path for name, path in files.items() if path}


def sentinel_addresses(settings: RedisSettings) -> list[tuple[str, int]]:
    addresses: list[tuple[str, int]] = []
    for address in settings.sentinels:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            msg = f"redis.sentinels: {address!r} is not of the form host:port"
            raise ConfigurationError(msg)
        addresses.append((host, int(port)))
    if not settings.sentinel_name:
        msg = "redis.sentinel_name: the name of the master is needed when redis.sentinels are given"
        raise ConfigurationError(msg)
    return addresses


def make_factory(settings: RedisSettings, *, protocol: int = 2) -> Any:
    """A pool of redis-py that is only asked for new connections: it knows the class and the arguments."""
    # Imported at first use: importing redis-py takes longer than all of offsider.
    from redis import connection, sentinel
    from redis.backoff import NoBackoff
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry

    untyped_connection: Any = connection
    untyped_sentinel: Any = sentinel
    options = connection_options(settings, retry=Retry(NoBackoff(), 0), protocol=protocol)
    options["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    addresses = sentinel_addresses(settings) if settings.sentinels else []
    try:
        if addresses:
            options = login_options(untyped_connection.parse_url(settings.url)) | options
            options["ssl"] = settings.url.startswith("rediss://")
            own = sentinel_options(settings, retry=Retry(NoBackoff(), 0))
            sentinels = untyped_sentinel.Sentinel(addresses, sentinel_kwargs=own)
            return untyped_sentinel.SentinelConnectionPool(settings.sentinel_name, sentinels, **options)
        return untyped_connection.ConnectionPool.from_url(settings.url, **options)
    except ValueError as error:
        msg = f"redis.url: {settings.redacted_url!r} is not usable: {error}"
        raise ConfigurationError(msg) from error


def login_options(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """What a URL says besides the address, which with Sentinels is theirs to tell."""
    return {"db": 0} | {key: parsed[key] for key in ("db", "username", "password") if key in parsed}


def sentinel_options(settings: RedisSettings, *, retry: object) -> dict[str, Any]:
    """How the Sentinels are asked: one that takes the connection and is silent must not use up a liveness life."""
    return {
        "password": settings.sentinel_password or None,
        "socket_timeout": settings.connect_timeout_seconds,
        "socket_connect_timeout": settings.connect_timeout_seconds,
        "retry": retry,
    }


def sentinel_clients(factory: Any) -> list[Any]:
    """redis-py's own connections to the Sentinels, which it leaves open."""
    return list(factory.sentinel_manager.sentinels) if hasattr(factory, "sentinel_manager") else []


def pool_exhausted(settings: RedisSettings, size: int) -> RedisUnavailable:
    """What a caller gets who waited in vain for a free connection."""
    return RedisUnavailable(
        f"all {size} connections to {settings.redacted_url} stayed in use for "
        f"{settings.pool_wait_seconds:g} s: raise redis.client_pool_size or use fewer threads",
        ambiguous=False,
    )


def _packer(connection: Any) -> Callable[[Sequence[Command]], Sequence[bytes]]:
    """What turns commands into bytes: hiredis' own packer, where it is installed; redis-py's looks at each argument."""
    try:
        hiredis: Any = importlib.import_module("hiredis")
    except ImportError:
        pack: Callable[[Sequence[Command]], Sequence[bytes]] = connection.pack_commands
        return pack
    pack_one = hiredis.pack_command
    return lambda commands: [b"".join([pack_one(command) for command in commands])]


class Wire:
    """One connection. Not to be shared by two threads at a time."""

    def __init__(self, connection: Any, server: str, report_trouble: Callable[[], None]) -> None:
        # Not at the top: importing redis-py takes longer than all of offsider. And not at each command.
        from redis.exceptions import RedisError, ResponseError

        self._redis_error: type[Exception] = RedisError
        self._response_error: type[Exception] = ResponseError
        self._connection = connection
        self._pack = _packer(connection)
        self._server = server
        self._report_trouble = report_trouble
        self._connections = 0
        self._used_at = 0.0

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send all commands in one write and answer their replies; an error reply is an element of the list.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` when a command may have been executed.
        """
        self._connect()
        with self._disconnecting_on_failure():
            self._connection.send_packed_command(self._pack(commands), check_health=False)
            return [self._reply() for _ in commands]

    def _connect(self) -> None:
        try:
            now = time.monotonic()
            if now - self._used_at > FRESH_SECONDS and self._connection.is_connected and self._is_stale():
                self.disconnect()
            self._used_at = now
            if not self._connection.is_connected:
                # No trouble in itself: proxies close what is idle. An outage is noticed by what fails in it.
                self._connection.connect()
                self._connections += 1
        except self._redis_error as error:
            self.disconnect()
            if self._connections:
                self._report_trouble()
            raise translate(cast("RedisError", error), sent=False, server=self._server) from error
        except BaseException:
            self.disconnect()
            raise

    def _is_stale(self) -> bool:
        """Whether the server has closed this idle connection, for example by a restart, or left a reply on it.

        Found out before anything is sent, this is no failure: the command goes out on a new connection.
        """
        try:
            return bool(self._connection.can_read(0))
        except self._redis_error:
            return True

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except self._response_error as error:
            failure = translate(cast("RedisError", error), sent=True, server=self._server)
            if isinstance(failure, RedisRefused) and failure.code in REROUTE | {"OOM"}:
                self._report_trouble()
            return failure

    def prepare(self) -> int:
        """Connect, when there is no connection or a stale one; answers a number that is another for each connection.

        Raises:
            RedisUnavailable: no connection.
        """
        self._used_at = 0.0
        self._connect()
        return self._connections

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands whose replies are read later, one by one, with `receive`.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` when a command may have been executed.
        """
        self._connect()
        with self._disconnecting_on_failure():
            self._connection.send_packed_command(self._pack(commands), check_health=False)

    def receive(self) -> Any:
        """The next reply; an error reply is answered, not raised.

        Raises:
            RedisUnavailable: the connection failed, or there was no reply in time.
        """
        with self._disconnecting_on_failure():
            reply = self._reply()
        if isinstance(reply, RedisRefused) and reply.code in REROUTE:
            self.disconnect()  # another server may be behind the name by now
        return reply

    @contextmanager
    def _disconnecting_on_failure(self) -> Generator[None]:
        try:
            yield
        except self._redis_error as error:
            self.disconnect()
            self._report_trouble()
            raise translate(cast("RedisError", error), sent=True, server=self._server) from error
        except BaseException:
            # A reply that nobody read would be taken for the reply to the next command.
            self.disconnect()
            raise

    def readable(self, timeout_seconds: float) -> bool:
        """Wait for something to read; also True when the connection has failed, which `receive` then tells."""
        try:
            return bool(self._connection.can_read(timeout_seconds))
        except self._redis_error:
            return True

    def fileno(self) -> int:
        """Of the socket, for a selector; only while connected."""
        return int(self._connection._sock.fileno())  # noqa: SLF001 - redis-py has no other way to wait on several

    def disconnect(self) -> None:
        self._connection.disconnect()


class Redis:
    """A bounded pool of wires to one server, safe to share between threads and across a fork.

    Args:
        settings: where the server is.
        size: the most connections open at a time; a caller waits ``pool_wait_seconds`` for a free one.
    """

    def __init__(self, settings: RedisSettings, *, size: int) -> None:
        self.settings = settings
        self.size = size
        self.keys = Keys(settings.key_prefix)
        self._factory: Any = None
        self._troubles = 0
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._free: list[Wire] = []
        self._slots = threading.Semaphore(self.size)
        self._lock = threading.Lock()
        # Last: a thread that sees the new pid must not find the parent's connections any more.
        self._pid = os.getpid()

    @property
    def troubles(self) -> int:
        """How often the server failed us so far: lost connections, no memory, a role that changed.

        While such trouble lasts beats cannot be written, so nobody may be declared dead for lack of them.
        """
        return self._troubles

    def call(self, *command: Argument) -> Any:
        """Run one command.

        Raises:
            RedisUnavailable: no connection, or it failed.
            RedisRefused: the server answered with an error.
        """
        return self.pipeline([command])[0]

    def pipeline(self, commands: Sequence[Command], *, raise_errors: bool = True) -> list[Any]:
        """Run several commands in one round trip.

        Args:
            commands: the commands, each a tuple.
            raise_errors: raise the first error reply; otherwise errors stand in the list.
        """
        with self.wire() as wire:
            replies = wire.exchange(commands)
            if any(isinstance(reply, RedisRefused) and reply.code in REROUTE for reply in replies):
                wire.disconnect()
        if raise_errors:
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
        return replies

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any:
        """Run a script by its hash, and by its text when the server does not know it yet."""
        return self.run_after((), script, keys, arguments)[1]

    def run_after(
        self, before: Sequence[Command], script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()
    ) -> tuple[list[Any], Any]:
        """Run commands and then a script, in one round trip; answers the replies to the commands, and the script's.

        An error reply to one of the commands is in the list, one to the script is raised.
        """
        *replies, result = self.pipeline([*before, script.by_hash(keys, arguments)], raise_errors=False)
        if isinstance(result, RedisRefused) and result.code == "NOSCRIPT":
            result = self.call(*script.by_text(keys, arguments))
        if isinstance(result, OffsiderError):
            raise result
        return replies, result

    def own_wire(self) -> Wire:
        """A connection outside of the pool, for whoever has to wait on its socket; the caller disconnects it."""
        with self._lock:
            return self._new_wire()

    @contextmanager
    def wire(self) -> Generator[Wire]:
        """A connection for the time of the block.

        Raises:
            RedisUnavailable: all connections stayed in use for ``pool_wait_seconds``.
        """
        if self._pid != os.getpid():
            # The child of a fork must not speak on its parent's sockets, nor trust a lock that
            # another thread held at the fork.
            self._reset()
        slots = self._slots
        if not slots.acquire(timeout=self.settings.pool_wait_seconds):
            raise pool_exhausted(self.settings, self.size)
        try:
            wire = self._take()
            try:
                yield wire
            finally:
                with self._lock:
                    self._free.append(wire)
        finally:
            slots.release()

    def _take(self) -> Wire:
        with self._lock:
            return self._free.pop() if self._free else self._new_wire()

    def _new_wire(self) -> Wire:
        if self._factory is None:
            self._factory = make_factory(self.settings)
        return Wire(self._factory.make_connection(), self.settings.redacted_url, self._note_trouble)

    def _note_trouble(self) -> None:
        with self._lock:
            self._troubles += 1

    def ping(self) -> float:
        """The time of one round trip, in seconds."""
        started = time.perf_counter()
        self.call("PING")
        return time.perf_counter() - started

    def close(self) -> None:
        """Close the idle connections; the pool may be used again."""
        with self._lock:
            idle, self._free = self._free, []
        for wire in idle:
            wire.disconnect()
        for sentinel in sentinel_clients(self._factory):
            sentinel.close()
