"""The connection pool: redis-py connections, used at the level of packed commands.

redis-py handles TLS, ACL, Sentinel and parsing. Its retries, health checks and maintenance notifications are off,
because a retried LPUSH or LMOVE duplicates or strands jobs. The caller decides whether to send a command again: an
``ambiguous`` error means that it may have been executed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from offsider.core import gil
from offsider.core.errors import ConfigurationError, OffsiderError, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage.cluster import (
    DEFAULT_PREFIX,
    SCHEMES,
    make_pool,
    redirected,
    split_url,
    sync_kind,
    tag_of,
    with_asking,
)
from offsider.storage.keys import Keys
from offsider.storage.redis_errors import CLUSTER_QUESTION, REROUTE, check_no_cluster, translate
from offsider.storage.scripts import Argument, Command, Script
from offsider.storage.server_version import VERSION_QUESTION, warn_if_too_old

# It turns the GIL on: https://github.com/redis/hiredis-py/issues/229. Before redis-py is imported, which looks for it.
gil.keep_off("hiredis")

if TYPE_CHECKING:
    from redis.exceptions import RedisError

DEFAULT_URL = "redis://localhost:6379/0"
#: Longest wait for a free connection of a pool, outside of pushes, which have a deadline. A longer one would hide that
#: the pool is too small.
POOL_WAIT_SECONDS = 1.0
#: A connection used within this time is not checked before its next use.
MAX_IDLE_SECONDS = 0.1
#: A timeout of a socket that differs by less than this from the wanted one is not changed.
NEARLY_SECONDS = 0.02


@dataclass
class RedisSettings:
    """Address of a server and connection options.

    Attributes:
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``; user, password and database may be part of it.
            ``redis+cluster://`` and ``rediss+cluster://`` are Clusters, with one or several ``host:port``.
        key_prefix: prepended to every key; see `prefix`.
        wire_version: major version of Sidekiq whose format is written: 6, 7 or 8.
        sentinels: ``host:port`` of each Sentinel; then ``sentinel_name`` is the name of the master.
    """

    url: str = DEFAULT_URL
    key_prefix: str = ""
    wire_version: int = 8
    socket_timeout_seconds: float = 5.0
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
    def is_cluster(self) -> bool:
        """Whether the URL is that of a Cluster."""
        return self.url.startswith(SCHEMES)

    @property
    def prefix(self) -> str:
        """The prefix of every key: ``key_prefix``, or the default of a Cluster.

        Raises:
            ConfigurationError: the prefix has no hash tag, and the server is a Cluster.
        """
        if not self.is_cluster:
            return self.key_prefix
        prefix = self.key_prefix or DEFAULT_PREFIX
        tag_of(prefix)
        return prefix

    @property
    def redacted_url(self) -> str:
        """The URL without its password, for logs."""
        if self.sentinels:
            return f"sentinel://{','.join(self.sentinels)}/{self.sentinel_name}"
        return redact(self.url)


def check_kind(reply: Any, settings: RedisSettings) -> None:
    """Check the server's reply to `CLUSTER_QUESTION` or `VERSION_QUESTION`; log a warning if its version is too old.

    Raises:
        RedisRefused: it is a node of a Cluster, and the settings name a server.
    """
    if not settings.is_cluster:
        check_no_cluster(reply, settings.redacted_url)
    warn_if_too_old(reply, settings.redacted_url)


def redact(url: str) -> str:
    """``url`` with its password replaced by stars, and without its query (which can contain one)."""
    parts = split_url(url)
    login = parts.login
    if ":" in login:
        login = f"{login.partition(':')[0]}:***@"
    return f"{parts.scheme}://{login}{parts.hosts}{re.split('[?#]', parts.rest)[0]}"


def connection_options(settings: RedisSettings, *, retry: object) -> dict[str, Any]:
    """The keyword arguments of redis-py for every connection."""
    options: dict[str, Any] = {
        "protocol": 2,
        "retry": retry,
        "health_check_interval": 0,
        "socket_timeout": settings.socket_timeout_seconds,
        "socket_connect_timeout": settings.socket_timeout_seconds,
    }
    if settings.username:
        options["username"] = settings.username
    if settings.password:
        options["password"] = settings.password
    if settings.url.startswith("rediss"):
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
    if settings.is_cluster:
        msg = "redis.sentinels: the url is that of a Cluster, which has no Sentinels: leave them out"
        raise ConfigurationError(msg)
    addresses: list[tuple[str, int]] = []
    for address in settings.sentinels:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            msg = f"redis.sentinels: {address!r} is not of the form host:port"
            raise ConfigurationError(msg)
        addresses.append((host, int(port)))
    if not settings.sentinel_name:
        msg = "redis.sentinel_name: set it to the name of the master, since redis.sentinels is set"
        raise ConfigurationError(msg)
    return addresses


def make_factory(settings: RedisSettings) -> Any:
    """A redis-py pool that only creates connections: it has the class and the arguments."""
    # Imported at first use: importing redis-py takes longer than all of offsider.
    from redis import connection, sentinel
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    options = connection_options(settings, retry=Retry(NoBackoff(), 0))
    return pool_of(settings, options, connection, sentinel, sync_kind)


def pool_of(settings: RedisSettings, options: dict[str, Any], connection: Any, sentinel: Any, managed: Any) -> Any:
    """Return the redis-py pool for a URL, for Sentinels or for a Cluster.

    Args:
        settings: address of the server.
        options: keyword arguments for each connection.
        connection: the module ``redis.connection`` or ``redis.asyncio.connection``.
        sentinel: the module ``redis.sentinel`` or ``redis.asyncio.sentinel``.
        managed: `sync_kind` or `async_kind`.

    Raises:
        ConfigurationError: the URL, the Sentinels or the key prefix are not usable.
    """
    from redis.maint_notifications import MaintNotificationsConfig

    options["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    addresses = sentinel_addresses(settings) if settings.sentinels else []
    pool: Any
    try:
        if settings.is_cluster:
            pool = make_pool(settings.url, settings.prefix, options, connection, managed)
        elif addresses:
            options = login_options(connection.parse_url(settings.url)) | options
            options["ssl"] = settings.url.startswith("rediss://")
            own = sentinel_options(settings, retry=options["retry"])
            sentinels = sentinel.Sentinel(addresses, sentinel_kwargs=own)
            pool = sentinel.SentinelConnectionPool(settings.sentinel_name, sentinels, **options)
        else:
            pool = connection.ConnectionPool.from_url(settings.url, **options)
        # redis-py counts every connection ever made, including closed ones, and stops at 100 or at the number in the
        # URL. `size` is the limit instead.
        pool.max_connections = sys.maxsize
        pool.make_connection()  # without connecting it: only the connection checks the options of the URL
    except (ValueError, TypeError) as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        reason = f"its option {unknown[1]!r} is unknown" if unknown else error
        msg = f"redis.url: {settings.redacted_url!r} is not usable: {reason}"
        raise ConfigurationError(msg) from error
    return pool


def login_options(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a URL other than the address, which Sentinels provide."""
    return {"db": 0} | {key: parsed[key] for key in ("db", "username", "password") if key in parsed}


def sentinel_options(settings: RedisSettings, *, retry: object) -> dict[str, Any]:
    """Connection options for Sentinels. A Sentinel that accepts connections without replying must not use up the time
    until liveness keys expire.
    """
    return {
        "password": settings.sentinel_password or None,
        "socket_timeout": settings.socket_timeout_seconds,
        "socket_connect_timeout": settings.socket_timeout_seconds,
        "retry": retry,
    }


def sentinel_clients(factory: Any) -> list[Any]:
    """redis-py's own connections to the Sentinels, which it leaves open."""
    return list(factory.sentinel_manager.sentinels) if hasattr(factory, "sentinel_manager") else []


def pool_exhausted(settings: RedisSettings, size: int, waited_seconds: float, users: str) -> RedisUnavailable:
    """The error after a timeout for a free connection; ``users`` are the threads or the tasks that use them."""
    return RedisUnavailable(
        f"all {size} connections to {settings.redacted_url} stayed in use for {waited_seconds:.3g} s: "
        f"check that the server replies, and raise redis.client_pool_size or use fewer {users}",
        ambiguous=False,
    )


def load_client() -> None:
    """Import redis-py now, and not at the first call. It takes half a second once."""
    importlib.import_module("redis")


def deadline_after(seconds: float) -> float:
    """Return the monotonic time ``seconds`` from now, for a call on a pool."""
    if "redis" not in sys.modules:
        load_client()  # its time must not count
    return time.monotonic() + seconds


def time_left(deadline: float) -> float:
    """Seconds until a deadline, in monotonic seconds; a little more than 0 if it has passed."""
    left = deadline - time.monotonic()
    return left if left > 0.001 else 0.001  # noqa: FURB136  # `max` costs each push a call


def packer(connection: Any) -> Callable[[Sequence[Command]], Sequence[bytes]]:
    """The function that packs commands: hiredis' if installed, which is faster than redis-py's."""
    try:
        hiredis: Any = importlib.import_module("hiredis")
    except ImportError:
        pack: Callable[[Sequence[Command]], Sequence[bytes]] = connection.pack_commands
        return pack
    pack_one = hiredis.pack_command
    return lambda commands: [b"".join([pack_one(command) for command in commands])]


_wires: weakref.WeakSet[Wire] = weakref.WeakSet()


class Wire:
    """One connection. Not thread-safe."""

    def __init__(self, make: Callable[[], Any], server: str, report_trouble: Callable[[], None]) -> None:
        # Imported at first use, since importing redis-py takes longer than all of offsider; not once per command.
        from redis.exceptions import RedisError, ResponseError

        self._redis_error: type[Exception] = RedisError
        self._response_error: type[Exception] = ResponseError
        self._make = make
        self._connection = make()
        self._pack = packer(self._connection)
        self._server = server
        self._report_trouble = report_trouble
        self._connections = 0
        self._used_at = 0.0
        #: Number of commands of `send` whose replies are unread.
        self.awaited = 0
        _wires.add(self)

    def exchange(self, commands: Sequence[Command], deadline: float | None = None) -> list[Any]:
        """Send all commands in one write and return their replies; error replies are elements of the list.

        Args:
            commands: the commands, each a tuple.
            deadline: monotonic seconds until which all of it may take; default: the timeouts of the settings.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` if a command may have been executed.
        """
        self._connect(deadline)
        try:
            self._connection.send_packed_command(self._pack(commands), check_health=False)
            replies: list[Any] = []
            for _ in commands:
                # The replies to one write usually arrive together.
                if deadline is not None and replies and time.monotonic() - self._used_at > NEARLY_SECONDS:
                    self._limit(time_left(deadline))
                replies.append(self._reply())
            return replies
        except self._redis_error as error:
            raise self._failed(error) from error
        except BaseException:
            self.disconnect()  # an unread reply would be taken for the reply to the next command
            raise

    def ask(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands to the node of a Cluster that ASK named; see `exchange`."""
        self._connection.ask()
        sent, places = with_asking(commands)
        try:
            replies = self.exchange(sent, deadline)
            return [replies[place] for place in places]
        finally:
            self.disconnect()

    def _connect(self, deadline: float | None = None) -> None:
        try:
            now = time.monotonic()
            unused = now - self._used_at > MAX_IDLE_SECONDS and not self.awaited
            if unused and self._connection.is_connected and self._is_stale():
                self.disconnect()
            self._used_at = now
            if not self._connection.is_connected:
                # Not counted as trouble: proxies close idle connections. In an outage other commands fail.
                self._open(deadline)
                self._connections += 1
            self._limit(self._connection.socket_timeout if deadline is None else time_left(deadline))
        except (self._redis_error, RedisUnavailable) as error:
            self.disconnect()
            if self._connections:
                self._report_trouble()
            if isinstance(error, RedisUnavailable):
                raise
            raise translate(cast("RedisError", error), sent=False, server=self._server) from error
        except BaseException:
            self.disconnect()
            raise

    def _limit(self, seconds: float) -> None:
        """Set the timeout of writes and replies, unless it is nearly the same: each change is a system call."""
        sock = self._connection._sock  # noqa: SLF001 - redis-py has no timeout for one command
        now = sock.gettimeout()
        if now is None or abs(now - seconds) > NEARLY_SECONDS:
            sock.settimeout(seconds)

    def _open(self, deadline: float | None) -> None:
        """Connect, until ``deadline`` in another thread: a lookup of the host name has no timeout."""
        connection = self._connection
        if deadline is None:
            connection.connect()
            return
        from concurrent.futures import Future

        from redis.exceptions import TimeoutError as TooLate

        opened: Future[None] = Future()

        def connect() -> None:
            try:
                opened.set_result(connection.connect())
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                opened.set_exception(error)

        try:
            threading.Thread(target=connect, name="offsider-connect", daemon=True).start()
        except RuntimeError:  # while the interpreter shuts down there are no new threads
            connect()
        try:
            opened.result(time_left(deadline))
        except BaseException as error:
            self._connection = self._make()
            connection.disconnect()  # ends a handshake without reply
            opened.add_done_callback(lambda _: connection.disconnect())
            if isinstance(error, TimeoutError):
                raise TooLate("Timeout connecting to server") from None
            raise

    def _is_stale(self) -> bool:
        """Whether the server has closed this idle connection, for example in a restart, or left a reply on it, or a
        Cluster has another primary, which another connection has found.

        Checked before anything is sent, this is not a failure: the command is sent on a new connection.
        """
        try:
            return getattr(self._connection, "is_outdated", False) or bool(self._connection.can_read(0))
        except self._redis_error:
            return True

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except self._response_error as error:
            failure = translate(cast("RedisError", error), sent=True, server=self._server)
            if isinstance(failure, RedisFailure) and failure.code in REROUTE | {"OOM"}:
                self._report_trouble()
            return failure

    def prepare(self) -> int:
        """Connect if there is no connection or a stale one. Returns a number that identifies the connection.

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
        try:
            self._connection.send_packed_command(self._pack(commands), check_health=False)
        except self._redis_error as error:
            raise self._failed(error) from error
        except BaseException:
            self.disconnect()  # an unread reply would be taken for the reply to the next command
            raise
        self.awaited += len(commands)

    def receive(self) -> Any:
        """Read the next reply; an error reply is returned, not raised.

        Raises:
            RedisUnavailable: the connection failed, or there was no reply in time.
        """
        if not self._connection.is_connected:  # since `readable`; redis-py's parser would raise AttributeError
            from redis.exceptions import ConnectionError as Lost

            raise self._failed(Lost("Connection closed by server."))
        try:
            reply = self._reply()
        except self._redis_error as error:
            raise self._failed(error) from error
        except BaseException:
            self.disconnect()  # an unread reply would be taken for the reply to the next command
            raise
        self.awaited -= 1
        if isinstance(reply, RedisFailure) and reply.code in REROUTE:
            self.disconnect()  # the name may point to another server now
        return reply

    def _failed(self, error: Exception) -> OffsiderError:
        self.disconnect()
        self._report_trouble()
        return translate(cast("RedisError", error), sent=True, server=self._server)

    def readable(self, timeout_seconds: float) -> bool:
        """Wait for data. Also True if the connection has failed; `receive` then raises."""
        if not self._connection.is_connected:  # redis-py would connect again, and no reply would ever arrive
            return True
        try:
            return bool(self._connection.can_read(timeout_seconds))
        except self._redis_error:
            return True

    def fileno(self) -> int:
        """The file descriptor of the socket, for a selector; only while connected."""
        return int(self._connection._sock.fileno())  # noqa: SLF001 - redis-py has no other way to wait on several

    def disconnect(self) -> None:
        self.awaited = 0
        self._connection.disconnect()

    def let_go(self) -> None:
        """Close the socket in this process only. Does not use redis-py: its locks may have been held at the fork."""
        sock, self._connection._sock = self._connection._sock, None  # noqa: SLF001 - redis-py would shut the socket down
        if sock is not None:
            with suppress(OSError):
                sock.close()


def _let_go_in_child() -> None:
    """Close a forked child's copies of its parent's sockets; those of the parent stay open.

    A child that outlives its worker would keep them open, and the server would send more jobs to a dead worker.
    """
    for wire in list(_wires):
        wire.let_go()


with suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_let_go_in_child)


class Redis:
    """A bounded pool of wires to one server, safe to share between threads and across a fork.

    Args:
        settings: address of the server.
        size: maximum number of open connections; a caller waits POOL_WAIT_SECONDS for a free one.
    """

    def __init__(self, settings: RedisSettings, *, size: int) -> None:
        self.settings = settings
        self.size = size
        self.keys = Keys(settings.prefix)
        self._factory: Any = None
        self._troubles = 0
        self._is_checked = False
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        #: Connections that are not in use; None for each that may still be opened. A semaphore would take longer.
        self._free: list[Wire | None] = [None] * self.size
        self._returned = threading.Condition()
        self._waiting = 0
        self._lock = threading.Lock()
        # Last: a thread that reads the new pid must not find the parent's connections.
        self._pid = os.getpid()

    @property
    def troubles(self) -> int:
        """Number of failures of the server so far: lost connections, out of memory, role changes.

        During such failures liveness keys cannot be renewed, so no owner may be declared dead for a missing one.
        """
        return self._troubles

    def call(self, *command: Argument) -> Any:
        """Run one command.

        Raises:
            RedisUnavailable: no connection, or it failed.
            RedisRefused: the server answered with an error.
        """
        return self.pipeline([command])[0]

    def check_server(self, deadline: float | None = None) -> None:
        """Raise RedisRefused if the server is a node of a Cluster. Asks it once.

        A node accepts pushes whose keys are in its slots, and no worker would run these jobs.
        """
        if self._is_checked:
            return
        try:
            (reply,) = self.pipeline([CLUSTER_QUESTION], raise_errors=False, deadline=deadline)
            if isinstance(reply, RedisRefused):
                (reply,) = self.pipeline([VERSION_QUESTION], raise_errors=False, deadline=deadline)
        except RedisUnavailable as error:
            raise RedisUnavailable(str(error), ambiguous=False) from error  # nothing was pushed yet
        check_kind(reply, self.settings)
        self._is_checked = True

    def pipeline(
        self, commands: Sequence[Command], *, raise_errors: bool = True, deadline: float | None = None
    ) -> list[Any]:
        """Run several commands in one round trip.

        Args:
            commands: the commands, each a tuple.
            raise_errors: raise the first error reply; otherwise errors are elements of the list.
            deadline: monotonic seconds until which waiting for a connection, connecting and the replies may take;
                default: the timeouts of the settings.
        """
        wire = self._borrow(deadline)
        try:
            replies = wire.exchange(commands, deadline)
            for reply in replies:  # `any` with a generator takes twice as long
                if isinstance(reply, RedisFailure) and reply.code in REROUTE:
                    self._reroute(wire, commands, replies, deadline)
                    break
        finally:
            self._give_back(wire)
        if raise_errors:
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
        return replies

    def _reroute(self, wire: Wire, commands: Sequence[Command], replies: list[Any], deadline: float | None) -> None:
        """Disconnect, and in a Cluster send the commands again that were redirected."""
        wire.disconnect()
        if not self.settings.is_cluster:
            return
        until = deadline or time.monotonic() + self.settings.socket_timeout_seconds
        for again in redirected(commands, replies, until):
            time.sleep(again.pause_seconds)
            repeated = [commands[place] for place in again.places]
            try:
                new = wire.ask(repeated, until) if again.asking else wire.exchange(repeated, deadline)
            except RedisUnavailable as error:
                if error.ambiguous or len(repeated) == len(commands):
                    raise
                return  # the others were executed
            for place, reply in zip(again.places, new, strict=True):
                replies[place] = reply
            if any(isinstance(reply, RedisFailure) and reply.code in REROUTE for reply in new):
                wire.disconnect()

    @property
    def cluster_place(self) -> str:
        """Hash tag, slot and primary in a Cluster, once connected; empty for other servers."""
        nodes = getattr(self._factory, "nodes", None)
        if nodes is None or nodes.primary is None:
            return ""
        return f"hash tag {{{nodes.tag}}}, slot {nodes.slot}, primary {nodes.primary[0]}:{nodes.primary[1]}"

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any:
        """Run a script by its hash, or by its text if the server does not have it yet."""
        return self.run_after((), script, keys, arguments)[1]

    def run_after(
        self, before: Sequence[Command], script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()
    ) -> tuple[list[Any], Any]:
        """Run commands and then a script, in one round trip. Returns the replies to the commands, and the script's.

        An error reply to a command is an element of the list. An error of the script is raised.
        """
        *replies, result = self.pipeline([*before, script.by_hash(keys, arguments)], raise_errors=False)
        if isinstance(result, RedisRefused) and result.code == "NOSCRIPT":
            result = self.call(*script.by_text(keys, arguments))
        if isinstance(result, OffsiderError):
            raise result
        return replies, result

    def own_wire(self) -> Wire:
        """A connection outside the pool, for callers that wait on its socket. The caller disconnects it."""
        with self._lock:
            return self._new_wire()

    @contextmanager
    def wire(self, deadline: float | None = None) -> Generator[Wire]:
        """Borrow a connection from the pool.

        Raises:
            RedisUnavailable: all connections stayed in use for POOL_WAIT_SECONDS, or until ``deadline``.
        """
        wire = self._borrow(deadline)
        try:
            yield wire
        finally:
            self._give_back(wire)

    def _borrow(self, deadline: float | None) -> Wire:
        if self._pid != os.getpid():
            # A forked child must not use its parent's sockets, nor a lock that another thread held at the fork.
            self._reset()
        try:
            wire = self._free.pop()  # the one that was used last: the server may have closed the others
        except IndexError:
            wire = self._wait(POOL_WAIT_SECONDS if deadline is None else time_left(deadline))
        if wire is not None:
            return wire
        try:
            with self._lock:
                return self._new_wire()
        except BaseException:
            self._give_back(None)
            raise

    def _wait(self, seconds: float) -> Wire | None:
        until = time.monotonic() + seconds
        with self._returned:
            self._waiting += 1  # before the list is read: whoever adds to it later sees this
            try:
                while True:
                    with suppress(IndexError):
                        return self._free.pop()
                    if not self._returned.wait(max(0.0, until - time.monotonic())):
                        raise pool_exhausted(self.settings, self.size, seconds, "threads")
            finally:
                self._waiting -= 1

    def _give_back(self, wire: Wire | None) -> None:
        self._free.append(wire)
        if self._waiting:
            with self._returned:
                self._returned.notify()

    def _new_wire(self) -> Wire:
        if self._factory is None:
            self._factory = make_factory(self.settings)
        return Wire(self._factory.make_connection, self.settings.redacted_url, self._note_trouble)

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
        idle: list[Wire | None] = []
        with suppress(IndexError):
            while True:
                idle.append(self._free.pop())
        for wire in idle:
            if wire is not None:
                wire.disconnect()
            self._give_back(None)
        for sentinel in sentinel_clients(self._factory):
            sentinel.close()
