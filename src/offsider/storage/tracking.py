"""A connection on which the server reports changed keys: ``CLIENT TRACKING`` over RESP3.

1. `open` connects and turns tracking on. If the server, a proxy or the ACL refuses it, `open` raises: poll instead.
2. `read` runs commands that read keys, including reads in scripts. The server watches these keys from then on.
3. When a watched key changes, the server sends one message, which wakes a thread that waits on the socket.
4. `changed` returns the changed keys. Read them again to receive further messages.
5. A broken connection loses its watches: the error is raised, and the next `open` starts without watches.

A message about a key that arrives before the reply to a read of that key is older than the reply, and is discarded.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Protocol

from offsider.core.errors import OffsiderError, RedisFailure, RedisRefused
from offsider.storage.cluster import redirected
from offsider.storage.keys import Keys
from offsider.storage.redis import RedisSettings, make_factory, sentinel_clients
from offsider.storage.redis_errors import REROUTE, translate
from offsider.storage.scripts import Command

#: A server that disappears without closing the connection is noticed by the next exchange, so one is made.
TRUSTED_SECONDS = 18.0


class HasFileno(Protocol):
    """A pipe or socket to wait on."""

    def fileno(self) -> int: ...


class Tracking:
    """A dedicated connection that watches keys. Not thread-safe.

    Args:
        settings: address of the server.

    Attributes:
        keys: key names, with the prefix of ``settings``.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self.keys = Keys(settings.prefix)
        self._settings = settings
        self._factory: Any = None
        self._connection: Any = None
        self._watched: set[str] = set()
        self._changed: set[str] = set()
        self._answered_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._connection is not None and bool(self._connection.is_connected)

    def open(self) -> None:
        """Connect and turn tracking on, unless the connection is open.

        Raises:
            RedisRefused: the server, a proxy or the ACL does not allow tracking: poll instead.
            RedisUnavailable: no connection.
        """
        if self.is_open:
            return
        if self._factory is None:
            self._factory = make_factory(self._settings, protocol=3)
        connection = self._factory.make_connection()
        self._connection = connection
        with self._translated(sent=False):
            connection.connect()
            connection._parser.set_invalidation_push_handler(self._note)  # noqa: SLF001 - redis-py has no public API for it
        reply = self._exchange([("CLIENT", "TRACKING", "ON")])[0]
        if isinstance(reply, OffsiderError):
            self.close()
            raise reply

    def read(self, keys: Sequence[str], commands: Sequence[Command]) -> list[Any]:
        """Run commands in one round trip. The last one reads ``keys``, which are watched from then on.

        Error replies are returned in the list, as offsider errors.

        Raises:
            RedisRefused, RedisUnavailable: as for `open`; or the connection failed, ``ambiguous`` if data was sent.
        """
        self.open()
        replies = self._exchange(commands)
        for again in redirected(commands, replies, time.monotonic() + self._settings.socket_timeout_seconds):
            time.sleep(again.pause_seconds)
            self.open()
            new = self._exchange([commands[place] for place in again.places])
            for place, reply in zip(again.places, new, strict=True):
                replies[place] = reply
        if self.is_open:
            self._changed.difference_update(keys)
            self._watched.update(keys)
        return replies

    def watch(self, *keys: str) -> None:
        """Watch keys of any type, without reading their values.

        Raises:
            RedisRefused, RedisUnavailable: see `read`.
        """
        reply = self.read(keys, [("EXISTS", *keys)])[-1]
        if isinstance(reply, OffsiderError):
            raise reply

    def watch_lists(self, queues: Sequence[str]) -> bool:
        """Watch queues for pushes. Returns True if one of them may already contain jobs.

        Watched queues without a change are not read again. Changes of other keys are still reported.

        Raises:
            RedisRefused, RedisUnavailable: see `read`.
        """
        keys = [self.keys.queue(queue) for queue in queues]
        changed = self.changed()
        self._changed = changed.difference(keys)  # the caller still needs changes of other keys
        if not changed.isdisjoint(keys):
            return True
        self.open()
        if time.monotonic() - self._answered_at < TRUSTED_SECONDS:
            keys = [key for key in keys if key not in self._watched]
        if not keys:
            return False
        # Discard no messages here: a push to the first queue can be reported before the reply about the last.
        self._watched.update(keys)
        lengths = self._exchange([("LLEN", key) for key in keys])
        if not self.is_open:
            return True  # redirected to another node of the Cluster: the caller looks, and watches there
        return any(_is_filled(length) for length in lengths)

    def prove(self) -> None:
        """Ping the server if it has sent no reply for a while: a connection that broke silently reports no changes.

        Raises:
            RedisRefused, RedisUnavailable: see `read`.
        """
        if time.monotonic() - self._answered_at >= TRUSTED_SECONDS:
            self.read((), [("PING",)])

    def watches(self, key: str) -> bool:
        """Whether this key is watched."""
        return self.is_open and key in self._watched

    def fileno(self) -> int:
        """The socket, for a selector, while `is_open`. Call `changed` first: a message may have been read already."""
        return int(self._connection._sock.fileno())  # noqa: SLF001 - redis-py has no other way to wait on several

    def changed(self) -> set[str]:
        """Return the keys that changed since they were read, each once. Does not block.

        Raises:
            RedisUnavailable: the connection is lost, and nothing is watched any more.
        """
        if self.is_open:
            with self._translated(sent=False):
                while self._connection.can_read(0):
                    self._connection.read_response(push_request=True)
        changed, self._changed = self._changed, set()
        return changed

    def wait(self, timeout_seconds: float, *others: HasFileno | int) -> set[str]:
        """Block until a watched key changes, one of ``others`` is readable, or the timeout expires.

        Returns the changed keys, as `changed` does.

        Raises:
            RedisUnavailable: the connection is lost, and nothing is watched any more.
        """
        changed = self.changed()
        if changed:
            return changed
        with DefaultSelector() as selector:
            for source in (*others, *([self] if self.is_open else [])):
                selector.register(source, EVENT_READ)
            selector.select(max(0.0, timeout_seconds))
        return self.changed()

    def close(self) -> None:
        """Disconnect and drop all watches. `open` may be called again."""
        self._watched, self._changed = set(), set()
        if self._connection is not None:
            self._connection.disconnect()
        for sentinel in sentinel_clients(self._factory):
            sentinel.close()

    def _note(self, message: Sequence[Any]) -> None:
        """Handler of redis-py for ``["invalidate", [key, …]]``; None in place of the keys means all keys."""
        named = message[1]
        keys = self._watched if named is None else {key.decode("utf-8", "surrogateescape") for key in named}
        self._changed |= keys
        self._watched = self._watched - keys

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        connection = self._connection
        with self._translated(sent=True):
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            replies = [self._reply() for _ in commands]
        self._answered_at = time.monotonic()
        if any(isinstance(reply, RedisFailure) and reply.code in REROUTE for reply in replies):
            self.close()
        return replies

    def _reply(self) -> Any:
        from redis.exceptions import ResponseError

        try:
            return self._connection.read_response()
        except ResponseError as error:
            return translate(error, sent=True, server=self._settings.redacted_url)

    @contextmanager
    def _translated(self, *, sent: bool) -> Generator[None]:
        from redis.exceptions import RedisError

        try:
            yield
        except RedisError as error:
            self.close()
            raise translate(error, sent=sent, server=self._settings.redacted_url) from error
        except BaseException:
            # An unread reply would be taken for the reply to the next command.
            self.close()
            raise


def _is_filled(length: Any) -> bool:
    if isinstance(length, OffsiderError):
        if isinstance(length, RedisRefused) and length.code == "WRONGTYPE":
            return False  # not a list, but watched: it may become one
        raise length
    return bool(length)
