"""Blocking pops: one BLMOVE per queue, each on its own connection.

1. `BlockingPops.start` sends a pop for each queue without one. Each pop moves one job into the owner's private list.
2. The sockets are in the caller's selector; `BlockingPops.read` reads the reply of a readable one.
3. `BlockingPops.unblocks` returns the commands that cancel all waiting pops, to be sent in one write with a script;
   `BlockingPops.called_back` then reads the replies of the pops, which can still be jobs.
4. A pop whose connection failed may have moved a job without a reply: it sets `ambiguous`.

A pop cannot check whether its owner was fenced, so it has a timeout (rule 2). The server wakes exactly one process
per job, after a plain LPUSH of any client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from selectors import EVENT_READ, BaseSelector
from typing import Any

from offsider.core.errors import RedisFailure, RedisRefused
from offsider.storage.redis import Redis, Wire
from offsider.storage.scripts import Command
from offsider.storage.working import Owner, PrivateListEntry

#: The server replies shortly after the timeout of a pop. After this extra time the reply is considered lost.
GRACE_SECONDS = 2.0
#: Timeout for a reply that the server has sent, and the number of attempts to cancel a pop it has not received yet.
ON_ITS_WAY_SECONDS = 0.01
CALLS = 100
#: Timeout of the pop with which `BlockingPops.may_call_back` asks.
PROBE_SECONDS = 0.001
#: Error codes of a command that the ACL forbids or the server lacks. Others pass, for example OOM of a full server.
FORBIDDEN = frozenset({"NOPERM", "ERR"})


class BlockingPop:
    """A connection and its blocking pop."""

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
        if connection != self._connection:  # the first connection, or the server closed the last one
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


class BlockingPops:
    """The pops of one capsule. Only the leader thread uses them.

    Args:
        redis: creates the connections.
        selector: registers their sockets, with the `BlockingPop` as data.
        clock: returns monotonic seconds.

    Attributes:
        brought: the jobs that pops have moved, until `take`.
        ambiguous: a pop may have moved a job whose reply was lost. The caller that handles this resets it.
        failure: the error of the last failed pop. The caller that handles this resets it.
    """

    def __init__(self, redis: Redis, selector: BaseSelector, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._selector = selector
        self._clock = clock
        #: Replaced, never mutated: other threads read `waiting`.
        self._pops: Mapping[str, BlockingPop] = {}
        self._called: list[BlockingPop] = []
        self.brought: list[PrivateListEntry] = []
        self.ambiguous = False
        self.failure: RedisFailure | None = None

    @property
    def waiting(self) -> list[BlockingPop]:
        """The pops that block at the server. Thread-safe."""
        return [pop for pop in self._pops.values() if pop.waiting]

    @property
    def queues(self) -> Iterable[str]:
        """The queues that have a connection, or had one at the last start."""
        return self._pops.keys()

    def may_call_back(self) -> bool:
        """Whether this user may block in a pop, and cancel it. The server or a proxy can lack the commands.

        Raises:
            RedisUnavailable: the server cannot be reached.
        """
        nothing = self._redis.keys.working("", "", "")  # no owner has this list
        pop = ("BLMOVE", nothing, nothing, "RIGHT", "LEFT", PROBE_SECONDS)
        replies = self._redis.pipeline([pop, ("CLIENT", "ID"), ("CLIENT", "UNBLOCK", 0)], raise_errors=False)
        return not any(isinstance(reply, RedisRefused) and reply.code in FORBIDDEN for reply in replies)

    def start(self, owner: Owner, queues: Sequence[str], timeout_seconds: float) -> None:
        """Block one pop on each queue, for up to ``timeout_seconds``.

        Raises:
            RedisFailure: a connection could not be used; pops that already block continue.
        """
        before = self._pops
        kept = {queue: pop for queue, pop in before.items() if pop.waiting or queue in queues}
        new = {queue: BlockingPop(self._redis.own_wire()) for queue in queues if queue not in kept}
        if new or len(kept) < len(before):
            self._pops = kept | new
        for queue in before.keys() - kept.keys():
            before[queue].close(self._selector)
        for queue in queues:
            if not self._pops[queue].waiting:
                self._send(self._pops[queue], owner, queue, timeout_seconds)

    def _send(self, pop: BlockingPop, owner: Owner, queue: str, timeout_seconds: float) -> None:
        keys = self._redis.keys
        private = keys.working(owner.identity, owner.capsule, queue)
        pop.owner, pop.queue = owner, queue
        pop.until = self._clock() + timeout_seconds + GRACE_SECONDS
        try:
            pop.send(("BLMOVE", keys.queue(queue), private, "RIGHT", "LEFT", f"{timeout_seconds:g}"), self._selector)
        except RedisFailure:
            self._lose(pop)
            raise

    def read(self, pop: BlockingPop) -> None:
        """Read the reply of a pop whose socket is readable."""
        try:
            reply = pop.receive()
        except RedisFailure as error:
            self._lose(pop)
            self.failure = error
            return
        if isinstance(reply, RedisFailure):
            self.failure = reply
            pop.close(self._selector)
        elif reply is not None:
            self.brought.append(PrivateListEntry(pop.owner, pop.queue, reply))

    def drop_overdue(self) -> None:
        """Close the pops whose reply is overdue."""
        now = self._clock()
        for pop in self.waiting:
            if pop.until < now:
                self._lose(pop)

    def next_deadline(self) -> float | None:
        """When the first waiting pop becomes overdue, by the clock; None if none waits."""
        return min((pop.until for pop in self.waiting), default=None)

    def unblocks(self) -> list[Command]:
        """Return the commands that cancel all waiting pops."""
        self._called = self.waiting
        return [pop.unblock for pop in self._called]

    def called_back(self, replies: Sequence[Any]) -> None:
        """Read the replies of canceled pops.

        A reply of 0 to a cancel command means that the pop has already replied, or has not reached the server yet,
        because it travels on another connection. It is then canceled again.
        """
        for pop, reply in zip(self._called, replies, strict=True):
            if isinstance(reply, RedisFailure):
                self._lose(pop)
                self.failure = reply
            elif reply or pop.readable(ON_ITS_WAY_SECONDS):
                self.read(pop)
            else:
                self._call_again(pop)
        self._called = []

    def _call_again(self, pop: BlockingPop) -> None:
        try:
            for _ in range(CALLS):
                if self._redis.call(*pop.unblock) or pop.readable(ON_ITS_WAY_SECONDS):
                    self.read(pop)
                    return
        except RedisFailure as error:
            self.failure = error
        self._lose(pop)

    def take(self) -> list[PrivateListEntry]:
        """Return and clear the jobs that pops have moved."""
        brought, self.brought = self.brought, []
        return brought

    def close(self) -> None:
        """Close all connections; a job that a pop moves at this time stays in the private list."""
        pops, self._pops = self._pops, {}
        for pop in pops.values():
            pop.close(self._selector)

    def _lose(self, pop: BlockingPop) -> None:
        pop.close(self._selector)
        self.ambiguous = True


def _number(reply: Any) -> int:
    if isinstance(reply, RedisFailure):
        raise reply
    return int(reply)
