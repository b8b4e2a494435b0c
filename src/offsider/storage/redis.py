"""The connection pool: redis-py connections, used at the level of packed commands.

redis-py handles TLS, ACL, Sentinel and parsing. Its retries, health checks and maintenance notifications are off,
because a retried LPUSH or LMOVE duplicates or strands jobs. The caller decides whether to send a command again: an
``ambiguous`` error means that it may have been executed.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from offsider.core import gil
from offsider.core.errors import ConfigurationError, OffsiderError, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage.cluster import (
    DEFAULT_PREFIX,
    SCHEMES,
    make_pool,
    redirected,
    split_url,
    tag_of,
    with_asking,
)
from offsider.storage.keys import Keys
from offsider.storage.loop_exchange import LoopExchange, can_exchange
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
RECEIVED_BYTES = 65_536
#: hiredis copies an argument several times, which costs more for one of this size than joining does.
LARGE_BYTES = 10_000
_NOTHING = object()


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
    """Return a redis-py pool that only creates connections: it has the class and the arguments.

    Raises:
        ConfigurationError: the URL, the Sentinels or the key prefix are not usable.
    """
    # Imported at first use: importing redis-py takes longer than all of offsider.
    from redis.backoff import NoBackoff
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry

    connection: Any = importlib.import_module("redis.connection")
    sentinel: Any = importlib.import_module("redis.sentinel")
    options = connection_options(settings, retry=Retry(NoBackoff(), 0))
    options["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    addresses = sentinel_addresses(settings) if settings.sentinels else []
    pool: Any
    try:
        if settings.is_cluster:
            pool = make_pool(settings.url, settings.prefix, options)
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


def pool_exhausted(settings: RedisSettings, size: int, waited_seconds: float) -> RedisUnavailable:
    """The error after a timeout for a free connection."""
    return RedisUnavailable(
        f"all {size} connections to {settings.redacted_url} stayed in use for {waited_seconds:.3g} s: "
        f"check that the server replies, and raise redis.client_pool_size or use fewer threads",
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


def packed_command(command: Command) -> bytes:
    """Return the bytes of a command, as hiredis packs it."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts += (b"$%d\r\n" % len(word), word, b"\r\n")
    return b"".join(parts)


def packer(connection: Any) -> Callable[[Sequence[Command]], bytes]:
    """The function that packs commands: hiredis' if installed, which is faster than redis-py's."""
    try:
        hiredis: Any = importlib.import_module("hiredis")
    except ImportError:
        return lambda commands: b"".join(connection.pack_commands(commands))
    pack_one = hiredis.pack_command

    def pack(command: Command) -> bytes:
        is_large = max(map(length_hint, command)) >= LARGE_BYTES  # 0 for numbers
        return packed_command(command) if is_large else pack_one(command)

    return lambda commands: b"".join([pack(command) for command in commands])


_Refused: TypeAlias = "Callable[[Exception], OffsiderError]"


class _Replies:
    """The replies on an open connection, read by redis-py's parser. An error reply is what ``refused`` makes of it."""

    def __init__(self, connection: Any) -> None:
        self._read: Callable[[], Any] = connection._parser.read_response  # noqa: SLF001 - that of the connection takes twice as long

    def next(self, refused: _Refused) -> Any:
        """Return the next reply."""
        reply = self._read()
        return refused(reply) if isinstance(reply, Exception) else reply

    def receive(self, refused: _Refused) -> list[Any]:
        """Receive once, if no reply is complete; return at least one."""
        return [self.next(refused)]

    def has_data(self) -> bool:
        """Whether a part of a reply has been received and not been read."""
        return False


class _FastReplies:
    """As `_Replies`, with hiredis' reader, in a third of the time."""

    def __init__(self, connection: Any, hiredis: Any) -> None:
        from redis.exceptions import ConnectionError as Lost, InvalidResponse

        self._receive = connection._sock.recv  # noqa: SLF001 - redis-py reads only for itself
        reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,  # noqa: SLF001 - the classes of errors are redis-py's
            notEnoughData=_NOTHING,
        )
        self._feed, self._get, self.has_data = reader.feed, reader.gets, reader.has_data
        self._lost: type[Exception] = Lost

    def next(self, refused: _Refused) -> Any:
        """Return the next reply."""
        while (reply := self._get()) is _NOTHING:
            self._feed(self._receive(RECEIVED_BYTES) or self._closed())
        return self._error(reply, refused) if isinstance(reply, Exception) else reply

    def receive(self, refused: _Refused) -> list[Any]:
        """Receive once; return the replies that are complete."""
        self._feed(self._receive(RECEIVED_BYTES) or self._closed())
        replies: list[Any] = []
        get = self._get
        while (reply := get()) is not _NOTHING:
            replies.append(self._error(reply, refused) if isinstance(reply, Exception) else reply)
        return replies

    def _closed(self) -> NoReturn:
        raise self._lost("Connection closed by server.")

    def _error(self, reply: Exception, refused: _Refused) -> OffsiderError:
        if isinstance(reply, self._lost):  # the server refuses the connection, or is loading its data
            raise reply
        return refused(reply)


def replies_of(connection: Any) -> _Replies | _FastReplies:
    """Return the reader of a connection: hiredis' if redis-py uses hiredis, which it does not with old versions."""
    if type(connection._parser).__name__ == "_HiredisParser":  # noqa: SLF001 - both readers would take bytes
        return _FastReplies(connection, importlib.import_module("hiredis"))
    return _Replies(connection)


def _is_reroute(reply: object) -> bool:
    return isinstance(reply, RedisFailure) and reply.code in REROUTE


_wires: weakref.WeakSet[_OpenWire] = weakref.WeakSet()


class _OpenWire:
    """The part of `Wire` that opens and closes its connection."""

    def __init__(self, make: Callable[[], Any], server: str, report_trouble: Callable[[], None]) -> None:
        # Imported at first use, since importing redis-py takes longer than all of offsider; not once per command.
        from redis.exceptions import RedisError, TimeoutError as TooLate

        self._too_late: type[Exception] = TooLate
        self._redis_error: type[Exception] = RedisError
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError)
        self._make = make
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._connection = self._new_connection()
        self.pack = packer(self._connection)
        self._replies: _Replies | _FastReplies = _Replies(self._connection)
        self._server = server
        self._report_trouble = report_trouble
        self._connections = 0
        self._used_at = 0.0
        #: Number of commands of `send` whose replies are unread.
        self.awaited = 0
        #: Whether a reply said that the server's role has changed: its name may point to another server now.
        self._is_rerouted = False
        _wires.add(self)

    def prepare(self) -> int:
        """Connect if there is no connection or a stale one. Returns a number that identifies the connection.

        Raises:
            RedisUnavailable: no connection.
        """
        self._used_at = 0.0
        self._connect()
        return self._connections

    def _connect(self, deadline: float | None = None) -> None:
        try:
            now = time.monotonic()
            connection = self._connection
            unused = now - self._used_at > MAX_IDLE_SECONDS and not self.awaited
            if unused and connection.is_connected and self._is_stale():
                self.disconnect()
            self._used_at = now
            if connection._sock is None:  # noqa: SLF001 - its property takes longer
                # Not counted as trouble: proxies close idle connections. In an outage other commands fail.
                self._open(deadline)
                now = time.monotonic()
                self._replies = replies_of(self._connection)
                self._connections += 1
            self._limit(self._connection.socket_timeout if deadline is None else deadline - now)
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

    def _new_connection(self) -> Any:
        connection = self._make()
        # The garbage collector may take the socket of a forgotten pool before the connection that would close it.
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, connection.disconnect)
        self._finalizer.atexit = False
        return connection

    def _limit(self, seconds: float) -> None:
        """Set the timeout of writes and replies, unless it is nearly the same: each change is a system call."""
        sock = self._connection._sock  # noqa: SLF001 - redis-py has no timeout for one command
        now = sock.gettimeout()
        if not now or not -NEARLY_SECONDS < now - seconds < NEARLY_SECONDS:
            sock.settimeout(max(seconds, 0.001))

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
            self._connection = self._new_connection()
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
            return getattr(self._connection, "is_outdated", False) or self._can_read(0)
        except self._redis_error:
            return True

    def _can_read(self, timeout_seconds: float) -> bool:
        return self._replies.has_data() or bool(self._connection.can_read(timeout_seconds))

    def _refused(self, reply: Exception) -> OffsiderError:
        """Return an error reply as ours."""
        if hasattr(self._connection, "note"):  # of a Cluster
            self._connection.note(reply)
        failure = translate(cast("RedisError", reply), sent=True, server=self._server)
        if isinstance(failure, RedisFailure) and failure.code in REROUTE | {"OOM"}:
            self._is_rerouted = self._is_rerouted or failure.code in REROUTE
            self._report_trouble()
        return failure

    def _failed(self, error: Exception) -> OffsiderError:
        if hasattr(self._connection, "doubt") and isinstance(error, (TimeoutError, self._too_late)):
            self._connection.doubt()
        self.disconnect()
        self._report_trouble()
        return translate(cast("RedisError", error), sent=True, server=self._server)

    def fileno(self) -> int:
        """The file descriptor of the socket, for a selector; only while connected."""
        return int(self._connection._sock.fileno())  # noqa: SLF001 - redis-py has no other way to wait on several

    def disconnect(self) -> None:
        self._is_rerouted = False
        self.awaited = 0
        self._connection.disconnect()

    def let_go(self) -> None:
        """Close the socket in this process only. Does not use redis-py: its locks may have been held at the fork."""
        sock, self._connection._sock = self._connection._sock, None  # noqa: SLF001 - redis-py would shut the socket down
        if sock is not None:
            with suppress(OSError):
                sock.close()


class Wire(_OpenWire):
    """One connection. Not thread-safe."""

    def exchange(self, commands: Sequence[Command], deadline: float | None = None) -> list[Any]:
        """Send all commands in one write and return their replies; error replies are elements of the list.

        Args:
            commands: the commands, each a tuple.
            deadline: monotonic seconds until which all of it may take; default: the timeouts of the settings.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` if a command may have been executed.
        """
        return self.exchange_packed(self.pack(commands), len(commands), deadline)

    def exchange_packed(self, packed: bytes, number: int, deadline: float | None = None) -> list[Any]:
        """As `exchange`, for packed commands.

        Args:
            packed: the bytes of the commands.
            number: their number.
            deadline: as for `exchange`.
        """
        self._connect(deadline)
        try:
            self._connection._sock.sendall(packed)  # noqa: SLF001 - redis-py's own call takes twice as long
            replies: list[Any] = []
            while len(replies) < number:  # they usually arrive together
                if deadline is not None and time.monotonic() - self._used_at > NEARLY_SECONDS:
                    self._limit(time_left(deadline))
                replies += self._replies.receive(self._refused)
        except self._errors as error:
            raise self._failed(error) from error
        except BaseException:
            self.disconnect()  # an unread reply would be taken for the reply to the next command
            raise
        if self._is_rerouted:
            self.disconnect()
        return replies

    async def exchange_on_loop(self, packed: bytes, number: int, seconds: float) -> list[Any]:
        """As `exchange_packed`, without blocking the running event loop. Requires `is_for_loops`."""
        self._used_at = time.monotonic()
        receive = partial(self._replies.receive, self._refused)
        exchange = LoopExchange(self._connection._sock, receive, number)  # noqa: SLF001 - as above
        try:
            replies = await exchange.run(packed, seconds, self._too_late("Timeout reading from socket"))
        except self._errors as error:
            raise self._failed(error) from error
        except BaseException:
            self.disconnect()  # as above
            raise
        if self._is_rerouted:
            self.disconnect()
        return replies

    def is_for_loops(self) -> bool:
        """Whether the connection is open, and an event loop can exchange on it without a thread.

        It cannot with TLS, which may have to write before it reads, and with redis-py's parser, which waits for the
        rest of a reply.
        """
        sock = self._connection._sock  # noqa: SLF001 - as above
        if type(sock) is not socket.socket or not isinstance(self._replies, _FastReplies):
            return False
        return time.monotonic() - self._used_at <= MAX_IDLE_SECONDS or not self._is_stale()

    def check_before_sending(self, check: Callable[[], None], deadline: float | None) -> None:
        """Connect, so that the next request is sent at once, then call ``check``."""
        self._connect(deadline)
        check()

    def ask(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands to the node of a Cluster that ASK named; see `exchange`."""
        self._connection.ask()
        sent, places = with_asking(commands)
        try:
            replies = self.exchange(sent, deadline)
            return [replies[place] for place in places]
        finally:
            self.disconnect()

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands whose replies are read later, one by one, with `receive`.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` when a command may have been executed.
        """
        self._connect()
        try:
            self._connection._sock.sendall(self.pack(commands))  # noqa: SLF001 - as in `exchange_packed`
        except self._errors as error:
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
            reply = self._replies.next(self._refused)
        except self._errors as error:
            raise self._failed(error) from error
        except BaseException:
            self.disconnect()  # an unread reply would be taken for the reply to the next command
            raise
        self.awaited -= 1
        if self._is_rerouted:
            self.disconnect()
        return reply

    def readable(self, timeout_seconds: float) -> bool:
        """Wait for data. Also True if the connection has failed; `receive` then raises."""
        if not self._connection.is_connected:  # redis-py would connect again, and no reply would ever arrive
            return True
        try:
            return self._can_read(timeout_seconds)
        except self._redis_error:
            return True


def _let_go_in_child() -> None:
    """Close a forked child's copies of its parent's sockets; those of the parent stay open.

    A child that outlives its worker would keep them open, and the server would send more jobs to a dead worker.
    """
    for wire in list(_wires):
        wire.let_go()


with suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_let_go_in_child)


class _Pool:
    """The part of `Redis` that lends its connections."""

    def __init__(self, settings: RedisSettings, *, size: int) -> None:
        self.settings = settings
        self.size = size
        self.is_cluster = settings.is_cluster
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

    def own_wire(self) -> Wire:
        """A connection outside the pool, for callers that wait on its socket. The caller disconnects it."""
        with self._lock:
            return self._new_wire()

    def _borrow(self, deadline: float | None) -> Wire:
        if self._pid != os.getpid():
            # A forked child must not use its parent's sockets, nor a lock that another thread held at the fork.
            self._reset()
        try:
            # Those who wait come first; else the one that was used last, as the server may have closed the others.
            wire = self._wait(deadline) if self._waiting else self._free.pop()
        except IndexError:
            wire = self._wait(deadline)
        if wire is not None:
            return wire
        try:
            with self._lock:
                return self._new_wire()
        except BaseException:
            self._give_back(None)
            raise

    def _wait(self, deadline: float | None) -> Wire | None:
        """Wait behind those who wait already: a thread that uses connections without a pause would overtake them."""
        seconds = POOL_WAIT_SECONDS if deadline is None else time_left(deadline)
        until = time.monotonic() + seconds
        with self._returned:
            first = not self._waiting
            self._waiting += 1  # before the list is read: whoever adds to it later sees this
            try:
                while True:
                    if first:
                        with suppress(IndexError):
                            return self._free.pop()
                    if not self._returned.wait(max(0.0, until - time.monotonic())):
                        raise pool_exhausted(self.settings, self.size, seconds)
                    first = True
            finally:
                self._waiting -= 1
                if self._free:
                    self._returned.notify()

    def _give_back(self, wire: Wire | None) -> None:
        if wire is None:
            self._free.insert(0, None)  # open connections are used first
        else:
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


class Redis(_Pool):
    """A bounded pool of wires to one server, safe to share between threads and across a fork.

    Args:
        settings: address of the server.
        size: maximum number of open connections; a caller waits POOL_WAIT_SECONDS for a free one.
    """

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
        self,
        commands: Sequence[Command],
        *,
        raise_errors: bool = True,
        deadline: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> list[Any]:
        """Run several commands in one round trip.

        Args:
            commands: the commands, each a tuple.
            raise_errors: raise the first error reply; otherwise errors are elements of the list.
            deadline: monotonic seconds until which waiting for a connection, connecting and the replies may take;
                default: the timeouts of the settings.
            check: called before the commands are sent, on an open connection; what it raises prevents that.
        """
        wire = self._borrow(deadline)
        try:
            if check is not None:
                wire.check_before_sending(check, deadline)
            replies = wire.exchange(commands, deadline)
            if self.is_cluster and any(map(_is_reroute, replies)):
                self._redirect(wire, commands, replies, deadline)
        finally:
            self._give_back(wire)
        if raise_errors:
            for reply in replies:
                if isinstance(reply, OffsiderError):
                    raise reply
        return replies

    def exchange_packed(
        self, packed: bytes, number: int, deadline: float, check: Callable[[], None] | None = None
    ) -> list[Any]:
        """As `pipeline`, for packed commands; error replies are elements of the list. Not for a Cluster."""
        wire = self._borrow(deadline)
        try:
            if check is not None:
                wire.check_before_sending(check, deadline)
            return wire.exchange_packed(packed, number, deadline)
        finally:
            self._give_back(wire)

    async def exchange_on_loop(
        self, request: bytes | Sequence[Command], number: int, seconds: float
    ) -> list[Any] | None:
        """Run commands with the running event loop instead of a thread; error replies are elements of the list.

        Returns None, and sends nothing, if this could block the loop: no connection is idle or `Wire.is_for_loops`, or
        the server is a Cluster, whose redirections take time.

        Args:
            request: the commands, packed or not.
            number: their number.
            seconds: maximum duration.
        """
        is_child = self._pid != os.getpid()  # whose first exchange in a thread resets the pool
        if is_child or not self._is_checked or self.is_cluster or not can_exchange(asyncio.get_running_loop()):
            return None
        wire = self._idle_wire()
        if wire is None:
            return None
        try:
            packed = request if isinstance(request, bytes) else wire.pack(request)
            return await wire.exchange_on_loop(packed, number, seconds)
        finally:
            try:
                self._free.remove(None)
            except ValueError:
                wire.disconnect()
            else:
                self._give_back(wire)

    def _idle_wire(self) -> Wire | None:
        """Take an idle wire for a loop, but not its place in the pool: a loop that is busy or ended returns none."""
        try:
            wire = self._free.pop()
        except IndexError:
            return None
        if wire is not None and not self._waiting and wire.is_for_loops():
            self._give_back(None)
            return wire
        self._give_back(wire)
        return None

    def _redirect(self, wire: Wire, commands: Sequence[Command], replies: list[Any], deadline: float | None) -> None:
        """Send the commands again that a node of a Cluster has redirected."""
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
