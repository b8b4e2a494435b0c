"""A connection of an event loop: redis-py opens it, and offsider exchanges commands and replies on it.

redis-py connects, with TLS, login, Sentinel or Cluster. Then a protocol of asyncio takes the place of its stream, and
wakes the caller once, when the replies to all commands of a request have arrived. With redis-py's own reading, through
a stream, a parser and a timer, a push took 1.5 times as long.
"""

from __future__ import annotations

import asyncio
import importlib
import selectors
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from offsider.core.errors import RedisUnavailable
from offsider.storage.cluster import with_asking
from offsider.storage.redis import MAX_IDLE_SECONDS, RedisSettings, packer, time_left
from offsider.storage.redis_errors import translate
from offsider.storage.scripts import Command

if TYPE_CHECKING:
    from redis.exceptions import RedisError

_CLOSED = "Connection closed by server."
#: An event loop that calls a timer this late was blocked, and may not have read replies that have arrived.
LATE_SECONDS = 0.1
#: It needs no file descriptor, as epoll would. Windows has no poll.
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class _Reader(Protocol):
    """The interface of hiredis' reader."""

    def feed(self, data: bytes, /) -> object: ...

    def gets(self) -> Any:
        """Return the next reply, an exception if it is an error; False if it has not arrived completely."""


class _ParserReader:
    """redis-py's parser in Python, as a reader; hiredis is optional."""

    def __init__(self, connection: Any) -> None:
        self._stream: asyncio.StreamReader = connection._reader  # noqa: SLF001 - as below
        self._parser: Any = connection._parser  # noqa: SLF001 - redis-py parses only what it has read itself
        self._parsing: Coroutine[Any, Any, Any] | None = None

    def feed(self, data: bytes) -> None:
        self._stream.feed_data(data)

    def gets(self) -> Any:
        parsing = self._parsing or self._parser.read_response()
        try:
            parsing.send(None)
        except StopIteration as end:
            self._parsing = None
            return end.value
        self._parsing = parsing  # it waits for more data than the stream has
        return False


def _reader(connection: Any) -> _Reader:
    from redis.exceptions import InvalidResponse

    try:
        hiredis: Any = importlib.import_module("hiredis")
    except ImportError:
        return _ParserReader(connection)
    reader: _Reader = hiredis.Reader(
        protocolError=InvalidResponse,
        replyError=connection._parser.parse_error,  # noqa: SLF001 - the classes of errors are redis-py's
    )
    return reader


class _Replies(asyncio.Protocol):
    """Receives the replies on an open connection, to one request at a time.

    It has no reference to the connection: the loop would keep a connection open whose pool is gone. It does not stop
    a caller that sends faster than the server reads, since the caller waits for the replies before it sends again.

    Attributes:
        is_open: whether the connection can be used; it cannot after an error or an unexpected reply.
    """

    def __init__(self, connection: Any) -> None:
        from redis.exceptions import ConnectionError as NoConnection

        self._no_connection = NoConnection
        self._loop = asyncio.get_running_loop()
        self._reader = _reader(connection)
        # redis-py has no other access to it
        self._transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001
        #: redis-py waits until it knows of the end of the connection.
        self._former = self._transport.get_protocol()
        self._transport.set_protocol(self)
        # Otherwise the end has already been reported, to the former protocol.
        self.is_open = not (self._transport.is_closing() or connection._reader.at_eof())  # noqa: SLF001
        self._replies: list[Any] = []
        self._number = 0
        self._waiter: asyncio.Future[list[Any]] | None = None
        self._until = self._rings_at = self._patience_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def is_stale(self) -> bool:
        """Whether the server has closed this idle connection, or left a reply on it, and the loop has not seen it yet.

        The loop may have been stopped or blocked in the meantime.
        """
        with _Selector() as selector:
            try:
                selector.register(self._transport.get_extra_info("socket"), selectors.EVENT_READ)
            except ValueError:  # closed: over TLS, the loop tells the protocol in its next round
                return True
            return bool(selector.select(0))

    def send(
        self, data: Sequence[bytes], number: int, until: float, patience_seconds: float = 0.0
    ) -> asyncio.Future[list[Any]]:
        """Send a request, and return the future of its replies. An error reply is an exception in the list.

        Args:
            data: the packed commands.
            number: number of the replies.
            until: monotonic seconds of the timeout, which fails the future with TimeoutError.
            patience_seconds: unless 0, the timeout starts again when a part of the replies arrives.
        """
        self._replies, self._number = [], number
        self._until, self._patience_seconds = until, patience_seconds
        # One timer for many requests: `asyncio.timeout` takes 4 us for each.
        if self._timer is None:
            self._set_timer()
        elif until < self._rings_at:
            self._timer.cancel()
            self._set_timer()
        self._waiter = waiter = self._loop.create_future()
        self._transport.write(b"".join(data))
        return waiter

    def _set_timer(self) -> None:
        self._rings_at = self._until
        self._timer = self._loop.call_later(max(0.0, self._until - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        now = time.monotonic()
        if now > self._rings_at + LATE_SECONDS:
            self._until = max(self._until, now + LATE_SECONDS)
        if now < self._until:
            self._set_timer()
        else:
            self._fail(TimeoutError())

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None:
            self.is_open = False
            return
        replies, gets = self._replies, self._reader.gets
        try:
            self._reader.feed(data)
            while (reply := gets()) is not False:
                replies.append(reply)
        except Exception as error:  # noqa: BLE001 - raised in the waiting task
            self._fail(error)
            return
        if len(replies) >= self._number:
            if len(replies) > self._number:
                self.is_open = False
                del replies[self._number :]
            self._waiter = None
            if not waiter.done():
                waiter.set_result(replies)
        elif self._patience_seconds:
            self._until = time.monotonic() + self._patience_seconds

    def eof_received(self) -> None:
        self._fail(self._no_connection(_CLOSED))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(self._no_connection(f"Connection lost: {exc}" if exc else _CLOSED))
        if self._timer is not None:
            self._timer.cancel()
        self._former.connection_lost(exc)

    def _fail(self, error: Exception) -> None:
        self.is_open = False
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def abort(self) -> None:
        """Close the connection without sending what is left of a request."""
        self.is_open = False
        self._transport.abort()


class AsyncWire:
    """One connection, for one task at a time; see ``storage.redis.Wire``.

    Args:
        make: makes a connection of redis-py.
        settings: address of the server, and timeouts.
    """

    def __init__(self, make: Callable[[], Any], settings: RedisSettings) -> None:
        from redis.exceptions import ConnectionError as NoConnection, RedisError

        self._redis_error: type[Exception] = RedisError
        self._no_connection: type[Exception] = NoConnection
        self._connection = make()
        self._pack = packer(self._connection)
        self._settings = settings
        self._connect_seconds = 2 * settings.socket_timeout_seconds
        self._replies: _Replies | None = None
        self._used_at = 0.0

    async def exchange(self, commands: Sequence[Command], deadline: float | None) -> list[Any]:
        """See ``storage.redis.Wire.exchange``. A cancellation closes the connection."""
        settings, sent = self._settings, False
        answer_in = settings.socket_timeout_seconds
        try:
            receiver, now = self._replies, time.monotonic()
            unused = now - self._used_at > MAX_IDLE_SECONDS
            self._used_at = now
            if receiver is None or not receiver.is_open or (unused and self._is_stale(receiver)):
                # Tasks that start together first run to their first wait; this time must not count.
                await asyncio.sleep(0)
                if deadline is not None:
                    deadline += time.monotonic() - now
                receiver = await self._connect(deadline)
            data = self._pack(commands)
            sent = True
            if deadline is None:
                request = receiver.send(data, len(commands), time.monotonic() + answer_in, answer_in)
            else:
                request = receiver.send(data, len(commands), deadline)
            replies = await request
            for place, reply in enumerate(replies):
                if isinstance(reply, self._redis_error):
                    replies[place] = self._error(cast("RedisError", reply))
        except TimeoutError as error:
            await self.disconnect()
            if settings.is_cluster:
                self._connection.doubt()
            missing, seconds = ("reply", answer_in) if sent else ("connection", self._connect_seconds)
            within = f"within {seconds:g} s" if deadline is None else "in time"
            message = f"{settings.redacted_url} cannot be reached: no {missing} {within}"
            raise RedisUnavailable(message, ambiguous=sent) from error
        except self._redis_error as error:
            await self.disconnect()
            raise translate(cast("RedisError", error), sent=sent, server=settings.redacted_url) from error
        except BaseException:
            # After a cancellation, an unread reply would be taken for the next command's.
            await self.disconnect()
            raise
        return replies

    def _is_stale(self, receiver: _Replies) -> bool:
        """See ``storage.redis.Wire``."""
        return receiver.is_stale() or getattr(self._connection, "is_outdated", False)

    async def ask(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands to the node of a Cluster that ASK named; see `exchange`."""
        await self.disconnect()
        self._connection.ask()
        sent, places = with_asking(commands)
        try:
            replies = await self.exchange(sent, deadline)
            return [replies[place] for place in places]
        finally:
            await self.disconnect()

    async def _connect(self, deadline: float | None) -> _Replies:
        await self.disconnect()  # the server may have closed it while it was idle, which is not a failure
        async with asyncio.timeout(self._connect_seconds if deadline is None else time_left(deadline)):
            await self._connection.connect()
        self._replies = receiver = _Replies(self._connection)
        if not receiver.is_open:
            raise self._no_connection(_CLOSED)
        return receiver

    def _error(self, error: RedisError) -> Exception:
        if isinstance(error, self._no_connection):
            raise error  # the server refuses the connection, or is loading its data
        if self._settings.is_cluster:
            self._connection.note(error)
        return translate(error, sent=True, server=self._settings.redacted_url)

    async def disconnect(self) -> None:
        """Close the connection at once; the next exchange opens a new one."""
        if self._replies is not None:
            self._replies.abort()
            self._replies = None
        await self._connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Close the connection, and wait for its end."""
        self._replies = None
        await self._connection.disconnect()
