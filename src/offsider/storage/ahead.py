"""One round trip of a worker, asked ahead: the request is written now, the reply read when there is nothing else to do.

1. `Ahead.ask` writes the script of an exchange on a connection of its own.
2. The server works while the worker runs the jobs that it has.
3. `Ahead.answer` reads the reply. When the connection fails in between, everything that was asked is in doubt.

Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.core.errors import OffsiderError
from offsider.storage import working
from offsider.storage.redis import Redis, Wire
from offsider.storage.working import Exchange, Owner


class Ahead:
    """A connection with at most one exchange under way."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._wire: Wire | None = None
        self._queues: Sequence[str] = ()

    def ask(self, owner: Owner, queues: Sequence[str], limit: int, finished: Sequence[tuple[str, bytes]]) -> None:
        """Write what `working.exchange` would send.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` when the request may have been carried out.
        """
        if self._wire is None:
            self._wire = self._redis.own_wire()
        keys, arguments = working.exchange_call(self._redis.keys, owner, queues, limit, finished)
        self._wire.send([working.EXCHANGE.by_hash(keys, arguments)])
        self._queues = queues

    def answer(self) -> Exchange:
        """Read the reply.

        Raises:
            Fenced: this owner was declared dead: nothing was done.
            RedisRefused: nothing was done, for example because the server does not know the script any more.
            RedisUnavailable: the connection failed, and what was asked may have been done.
        """
        assert self._wire is not None  # noqa: S101 - there is an answer only to what was asked
        reply = self._wire.receive()
        if isinstance(reply, OffsiderError):
            raise reply
        return working.exchanged(reply, self._queues)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.disconnect()
