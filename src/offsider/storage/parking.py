"""Parks: pops that wait at the server, one BLMOVE for each queue, each on a connection of its own.

1. `Parking.park` sends what is not waiting yet. Each pop moves one job into the owner's private list.
2. The sockets are in the caller's selector; `Parking.read` takes the reply of one that is readable.
3. `Parking.unblocks` are the commands that call all others back, to be sent in one write with a script;
   `Parking.called_back` reads what they then answer, which may be a job as well.
4. A pop whose connection failed may have moved a job that nobody knows of: then `doubtful` is set.

A park cannot look whether its owner was fenced, so it ends by itself (rule 2). Exactly one process wakes for a
job, and a plain LPUSH of anybody is enough to wake it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, BaseSelector
from typing import Any

from offsider.core.errors import RedisFailure, RedisRefused
from offsider.storage.redis import Redis, Wire
from offsider.storage.scripts import Command
from offsider.storage.working import Entry, Owner

#: The server answers a little after its timeout; later than this nobody answers any more.
GRACE_SECONDS = 2.0
#: How long an answer that the server has sent may take, and how often a pop that it has not seen is called.
ON_ITS_WAY_SECONDS = 0.01
CALLS = 100


class Park:
    """One connection, and the pop that waits on it."""

    __slots__ = ("_client_id", "_connection", "_fileno", "_wire", "owner", "queue", "until", "waiting")

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._client_id: int = 0
        self._connection = 0
        self._fileno = -1
        self.owner = Owner("", "")
        self.queue = ""
        self.waiting = False
        self.until = 0.0

    @property
    def unblock(self) -> Command:
        return ("CLIENT", "UNBLOCK", self._client_id)

    def send(self, command: Command, selector: BaseSelector) -> None:
        connection = self._wire.prepare()
        if connection != self._connection:  # the server closed the last one, or this is the first
            self.leave(selector)
            self._client_id = _number(self._wire.exchange([("CLIENT", "ID")])[0])
            self._connection = connection
            self._fileno = self._wire.fileno()
            selector.register(self._fileno, EVENT_READ, self)
        self._wire.send([command])
        self.waiting = True

    def readable(self, timeout_seconds: float) -> bool:
        return self._wire.readable(timeout_seconds)

    def receive(self) -> Any:
        self.waiting = False
        return self._wire.receive()

    def close(self, selector: BaseSelector) -> None:
        self.waiting = False
        self.leave(selector)
        self._wire.disconnect()

    def leave(self, selector: BaseSelector) -> None:
        if self._fileno >= 0:
            selector.unregister(self._fileno)
            self._fileno = -1


class Parking:
    """The parks of one capsule; used by one thread at a time, the leader.

    Args:
        redis: makes the connections.
        selector: where their sockets are registered, with the `Park` as data.
        clock: monotonic seconds.

    Attributes:
        brought: the jobs that parks have moved, until `take`.
        doubtful: a park may have moved a job that nobody heard of; to be cleared by who acts upon it.
        failure: what the last park that failed failed with; likewise.
    """

    def __init__(self, redis: Redis, selector: BaseSelector, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._selector = selector
        self._clock = clock
        self._parks: dict[str, Park] = {}
        self._called: list[Park] = []
        self.brought: list[Entry] = []
        self.doubtful = False
        self.failure: RedisFailure | None = None

    @property
    def waiting(self) -> list[Park]:
        return [park for park in self._parks.values() if park.waiting]

    def may_call_back(self) -> bool:
        """Whether the server lets this user call a waiting pop back.

        Raises:
            RedisUnavailable: it cannot be asked.
        """
        try:
            self._redis.pipeline([("CLIENT", "ID"), ("CLIENT", "UNBLOCK", 0)])
        except RedisRefused:
            return False
        return True

    def park(self, owner: Owner, queues: Sequence[str], timeout_seconds: float) -> None:
        """Have one pop wait at each queue, for ``timeout_seconds`` at most.

        Raises:
            RedisFailure: a connection could not be used; those that wait already still do.
        """
        for queue in [queue for queue, park in self._parks.items() if not park.waiting and queue not in queues]:
            self._parks.pop(queue).close(self._selector)
        for queue in queues:
            park = self._parks.get(queue)
            if park is None:
                park = self._parks[queue] = Park(self._redis.own_wire())
            if not park.waiting:
                self._send(park, owner, queue, timeout_seconds)

    def _send(self, park: Park, owner: Owner, queue: str, timeout_seconds: float) -> None:
        keys = self._redis.keys
        private = keys.working(owner.identity, owner.capsule, queue)
        park.owner, park.queue = owner, queue
        park.until = self._clock() + timeout_seconds + GRACE_SECONDS
        try:
            park.send(("BLMOVE", keys.queue(queue), private, "RIGHT", "LEFT", f"{timeout_seconds:g}"), self._selector)
        except RedisFailure:
            self._lose(park)
            raise

    def read(self, park: Park) -> None:
        """Take the reply of a park whose socket is readable."""
        try:
            reply = park.receive()
        except RedisFailure as error:
            self._lose(park)
            self.failure = error
            return
        if isinstance(reply, RedisFailure):
            self.failure = reply
            park.close(self._selector)
        elif reply is not None:
            self.brought.append(Entry(park.owner, park.queue, reply))

    def drop_overdue(self) -> None:
        """Give up the parks whose reply should have come long ago."""
        now = self._clock()
        for park in self.waiting:
            if park.until < now:
                self._lose(park)

    def next_deadline(self) -> float | None:
        """When the first of the waiting parks is overdue, by the clock."""
        return min((park.until for park in self.waiting), default=None)

    def unblocks(self) -> list[Command]:
        """The commands that call every waiting park back."""
        self._called = self.waiting
        return [park.unblock for park in self._called]

    def called_back(self, replies: Sequence[Any]) -> None:
        """Read what the parks answer that were called back.

        0 from the server means that an answer is on its way, or that the pop has not reached the server yet: it
        travels on another connection. Then it is called again.
        """
        for park, reply in zip(self._called, replies, strict=True):
            if isinstance(reply, RedisFailure):
                self._lose(park)
                self.failure = reply
            elif reply or park.readable(ON_ITS_WAY_SECONDS):
                self.read(park)
            else:
                self._call_again(park)
        self._called = []

    def _call_again(self, park: Park) -> None:
        try:
            for _ in range(CALLS):
                if self._redis.call(*park.unblock) or park.readable(ON_ITS_WAY_SECONDS):
                    self.read(park)
                    return
        except RedisFailure as error:
            self.failure = error
        self._lose(park)

    def take(self) -> list[Entry]:
        """The jobs that were moved since the last time."""
        brought, self.brought = self.brought, []
        return brought

    def close(self) -> None:
        """Give all connections up; a job that one of them is just moving stays in the private list."""
        for park in self._parks.values():
            park.close(self._selector)
        self._parks.clear()

    def _lose(self, park: Park) -> None:
        park.close(self._selector)
        self.doubtful = True


def _number(reply: Any) -> int:
    if isinstance(reply, RedisFailure):
        raise reply
    return int(reply)
