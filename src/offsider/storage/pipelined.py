"""Pipelined `ack_and_claim` requests: a worker writes a request, runs jobs, and reads the reply later.

1. `Pipelined.ask` writes an `ack_and_claim` request on a dedicated connection.
2. The server processes it while the worker runs its jobs. Several requests can be in flight.
3. `Pipelined.answer` reads the oldest reply. If the connection fails, all requests without a reply are in doubt.

Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.core.errors import OffsiderError
from offsider.storage import working
from offsider.storage.effects import EffectCalls
from offsider.storage.redis import Redis, Wire
from offsider.storage.working import ClaimReply, Owner


class Pipelined:
    """A connection with requests in flight."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._wire: Wire | None = None
        #: Hashes of scripts with effects whose text was sent on this connection.
        self._sent: set[str] = set()

    def ask(
        self,
        owner: Owner,
        queues: Sequence[str],
        limit: int,
        finished: Sequence[tuple[str, bytes]],
        effects: EffectCalls | None = None,
    ) -> None:
        """Write the request of `working.ack_and_claim`.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` if the request may have been executed.
        """
        if self._wire is None:
            self._wire = self._redis.own_wire()
        call = working.ack_and_claim_call(self._redis.keys, owner, queues, limit, finished, effects=effects)
        script, keys, arguments = call
        if effects and script.sha not in self._sent:
            self._wire.send([script.by_text(keys, arguments)])
            self._sent.add(script.sha)
        else:
            self._wire.send([script.by_hash(keys, arguments)])

    @property
    def awaits(self) -> bool:
        """Whether requests without a reply are in flight."""
        return self._wire is not None and self._wire.awaited > 0

    @property
    def readable(self) -> bool:
        """Whether a reply has arrived, or the connection has failed."""
        return self._wire is not None and self._wire.readable(0)

    def answer(self, queues: Sequence[str], effects: EffectCalls | None = None) -> ClaimReply:
        """Read the oldest reply, to a request with these queues and effects.

        Raises:
            Fenced: this owner was declared dead: nothing was executed.
            RedisRefused: nothing was executed, for example because a restarted server does not know the script.
            RedisUnavailable: the connection failed; the request may have been executed.
        """
        assert self._wire is not None  # noqa: S101 - every reply has a request
        reply = self._wire.receive()
        if isinstance(reply, OffsiderError):
            raise reply
        return working.parse_reply(reply, queues, effects)

    def close(self) -> None:
        self._sent.clear()
        if self._wire is not None:
            self._wire.disconnect()
