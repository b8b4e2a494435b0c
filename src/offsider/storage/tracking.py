"""One connection on which the server tells which keys have changed: ``CLIENT TRACKING`` over RESP3.

1. `open` connects and asks for tracking. A server, proxy or user that does not grant it is a refusal: poll instead.
2. `read` runs commands that read keys, also inside of scripts. From then on the server watches these keys.
3. When somebody changes one of them, the server sends a message, once; whoever waits on the socket wakes.
4. `changed` answers which keys these were. To be told again, read them again.
5. A connection that breaks forgets what it watched: the error is raised, and the next `open` begins anew.

What was said about a key before the answer to its reading is older than that answer, and forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Protocol

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.failures import REROUTE, translate
from offsider.storage.keys import Keys
from offsider.storage.redis import RedisSettings, make_factory, sentinel_clients
from offsider.storage.scripts import Command

#: A server that is gone without a word shows in the next reading only, so what is watched is read again.
TRUSTED_SECONDS = 20.0


class HasFileno(Protocol):
    """A pipe or socket to wait on."""

    def fileno(self) -> int: ...


class Tracking:
    """A connection of its own that watches keys. Not to be shared by two threads at a time.

    Args:
        settings: where the server is.

    Attributes:
        keys: the keys there, with the prefix of ``settings``.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self.keys = Keys(settings.key_prefix)
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
        """Connect and have keys tracked; nothing when that is so already.

        Raises:
            RedisRefused: the server, a proxy before it or the rights of the user do not allow it: poll instead.
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
            connection._parser.set_invalidation_push_handler(self._note)  # noqa: SLF001 - there is no other door
        reply = self._exchange([("CLIENT", "TRACKING", "ON")])[0]
        if isinstance(reply, OffsiderError):
            self.close()
            raise reply

    def read(self, keys: Sequence[str], commands: Sequence[Command]) -> list[Any]:
        """Run commands in one round trip, the last of which reads ``keys``; these are watched from then on.

        An error reply is an element of the list, as an error of our own.

        Raises:
            RedisRefused, RedisUnavailable: as `open`; the connection failed, ``ambiguous`` once something was sent.
        """
        self.open()
        replies = self._exchange(commands)
        if self.is_open:
            self._changed.difference_update(keys)
            self._watched.update(keys)
        return replies

    def watch(self, *keys: str) -> None:
        """Have changes of these keys told, whatever they hold now.

        Raises:
            RedisRefused, RedisUnavailable: see `read`.
        """
        reply = self.read(keys, [("EXISTS", *keys)])[-1]
        if isinstance(reply, OffsiderError):
            raise reply

    def watch_lists(self, queues: Sequence[str]) -> bool:
        """Have pushes to these queues told; True when there may be jobs in one of them already.

        Those that are watched and have not changed are not read again. What other keys have changed is still told.

        Raises:
            RedisRefused, RedisUnavailable: see `read`.
        """
        keys = [self.keys.queue(queue) for queue in queues]
        told = self.changed()
        self._changed = told.difference(keys)  # of what else is watched here, the caller wants to hear
        if not told.isdisjoint(keys):
            return True
        self.open()
        if time.monotonic() - self._answered_at < TRUSTED_SECONDS:
            keys = [key for key in keys if key not in self._watched]
        if not keys:
            return False
        # Nothing is forgotten here: a push to the first may be told before the answer about the last.
        self._watched.update(keys)
        lengths = self._exchange([("LLEN", key) for key in keys])
        return any(_is_filled(length) for length in lengths)

    def watches(self, key: str) -> bool:
        """Whether a change of this key will be told."""
        return self.is_open and key in self._watched

    def fileno(self) -> int:
        """Of the socket, for a selector; only while `is_open`. Ask `changed` before: something may be read already."""
        return int(self._connection._sock.fileno())  # noqa: SLF001 - redis-py has no other way to wait on several

    def changed(self) -> set[str]:
        """The keys that have changed since they were read; each is told once. Does not wait.

        Raises:
            RedisUnavailable: the connection is lost, and nothing is watched any more.
        """
        if self.is_open:
            with self._translated(sent=False):
                while self._connection.can_read(0):
                    self._connection.read_response(push_request=True)
        told, self._changed = self._changed, set()
        return told

    def wait(self, timeout_seconds: float, *others: HasFileno | int) -> set[str]:
        """Sleep until a watched key changes, one of ``others`` can be read or the time is over.

        Answers what has changed, as `changed` does.

        Raises:
            RedisUnavailable: the connection is lost, and nothing is watched any more.
        """
        told = self.changed()
        if told:
            return told
        with DefaultSelector() as selector:
            for source in (*others, *([self] if self.is_open else [])):
                selector.register(source, EVENT_READ)
            selector.select(max(0.0, timeout_seconds))
        return self.changed()

    def close(self) -> None:
        """Disconnect; what was watched is forgotten. It may be opened again."""
        self._watched, self._changed = set(), set()
        if self._connection is not None:
            self._connection.disconnect()
        for sentinel in sentinel_clients(self._factory):
            sentinel.close()

    def _note(self, message: Sequence[Any]) -> None:
        """Called by redis-py with ``["invalidate", [key, …]]``; None in place of the keys stands for all."""
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
        if any(isinstance(reply, RedisRefused) and reply.code in REROUTE for reply in replies):
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
            # A reply that nobody read would be taken for the reply to the next command.
            self.close()
            raise


def _is_filled(length: Any) -> bool:
    if isinstance(length, OffsiderError):
        if isinstance(length, RedisRefused) and length.code == "WRONGTYPE":
            return False  # no list, but watched as well: perhaps it becomes one
        raise length
    return bool(length)
