"""Private lists: they contain each job from its claim to its outcome.

A claimed job leaves its private list only by a function that acts on entries still in it. `postpone`, `bury`,
`put_back` and `put_last` move an entry: they write the destination first, remove the entry last, and return False if it
was missing, because another process owns the job. `ack_and_claim` only removes finished entries, and reports missing
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from offsider.core.errors import Fenced, OffsiderError, RedisRefused
from offsider.storage.effects import EffectCalls, joined
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis, Wire
from offsider.storage.scripts import Argument, Call, Command, RunsScripts, Script

ACK_AND_CLAIM = Script("ack_and_claim")
SETTLE = Script("settle")
REQUEUE = Script("requeue")

#: Redis' Lua unpacks at most 8,000 values, and a long script blocks all other clients.
BATCH = 100
#: Enough for all prefetched jobs of a process: between two scripts, another process could take some of the jobs.
PUT_BACK_BATCH = 600

_REFUSED = -1
NOT_PAUSED: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of private lists: a capsule of a process.

    Attributes:
        identity: ``host:pid:nonce`` of the process at the time of the claim.
        capsule: name of the capsule.
    """

    identity: str
    capsule: str


@dataclass(frozen=True, slots=True)
class PrivateListEntry:
    """One job in a private list."""

    owner: Owner
    queue: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class DeadSetLimits:
    """Maximum size of the dead set (less one, as in Sidekiq) and retention."""

    max_jobs: int = 10_000
    timeout_seconds: float = 15_552_000


@dataclass(frozen=True, slots=True)
class ClaimReply:
    """The reply to `ack_and_claim`.

    Attributes:
        gone: indexes, from 0, of finished jobs missing from their lists: another process owns them.
        claimed: queue and payload of each claimed job, in the order in which they run.
        paused: the paused queues.
        refused: why an existing queue could not be read; empty without an error.
        version: of the controls (`storage.controls`); empty without one, and if nothing was claimed.
        replies: replies of the effects' calls.
    """

    gone: Sequence[int]
    claimed: Sequence[tuple[str, bytes]]
    paused: frozenset[str]
    refused: str
    version: bytes = b""
    replies: Sequence[Any] = ()


class CalledBack(Protocol):
    """Blocking pops that can be canceled."""

    def unblocks(self) -> Sequence[Command]:
        """Return the commands that cancel the pops."""
        ...

    def called_back(self, replies: Sequence[Any]) -> None:
        """Receive the replies to these commands."""
        ...


def ack_and_claim(
    redis: Redis,
    owner: Owner,
    queues: Sequence[str],
    limit: int,
    finished: Sequence[tuple[str, bytes]] = (),
    *,
    effects: EffectCalls | None = None,
    pops: CalledBack | None = None,
) -> ClaimReply:
    """Acknowledge finished jobs and claim up to ``limit`` jobs, in one round trip.

    Args:
        queues: queues to claim from, in this order.
        limit: maximum number of jobs to claim; 0 for none.
        finished: queue and payload of each finished job.
        effects: effects of finished jobs.
        pops: blocking pops to cancel in the same round trip; they keep the jobs that they moved.

    Raises:
        Fenced: this owner was declared dead: nothing was acknowledged, and it must take a new identity.
    """
    call = ack_and_claim_call(redis.keys, owner, queues, limit, finished, effects=effects)
    unblocks = pops.unblocks() if pops is not None else ()
    replies, result = redis.run_after(unblocks, *call)
    if pops is not None:
        pops.called_back(replies)
    return parse_reply(result, queues, effects)


def ack_and_claim_call(
    keys: Keys,
    owner: Owner,
    queues: Sequence[str],
    limit: int,
    finished: Sequence[tuple[str, bytes]],
    *,
    effects: EffectCalls | None = None,
) -> Call:
    """Return the script call of `ack_and_claim`."""
    served = list(queues)
    places = {queue: place for place, queue in enumerate(served, 1)}
    arguments: list[Argument] = [limit, len(queues), *queues]
    for queue, raw in finished:
        place = places.get(queue)
        if place is None:
            served.append(queue)
            place = places[queue] = len(served)
        arguments += (place, raw)
    prefix = keys.working(owner.identity, owner.capsule, "")
    pairs = [key for queue in served for key in (keys.queue(queue), prefix + queue)]
    all_keys = [keys.fenced(owner.identity), keys.controls_version, keys.paused, *pairs]
    return joined(ACK_AND_CLAIM, all_keys, arguments, effects) if effects else (ACK_AND_CLAIM, all_keys, arguments)


def parse_reply(reply: Any, queues: Sequence[str], effects: EffectCalls | None = None) -> ClaimReply:
    """Parse the reply of the `ack_and_claim` script."""
    replies: Sequence[Any] = ()
    if effects:
        reply, replies = reply
    gone: list[int] = reply[0]
    indexes: list[int] = reply[1][::2]
    payloads: list[bytes] = reply[1][1::2]
    paused: list[int] = reply[2]
    refused: bytes = reply[3]
    return ClaimReply(
        gone=[place - 1 for place in gone] if gone else (),
        claimed=[(queues[index - 1], raw) for index, raw in zip(indexes, payloads, strict=True)],
        paused=frozenset([queues[index - 1] for index in paused]) if paused else NOT_PAUSED,
        refused=refused.decode(errors="replace"),
        version=reply[4],
        replies=replies,
    )


class Pipelined:
    """A connection with `ack_and_claim` requests in flight: the server handles them while the worker runs its jobs.

    If the connection fails, all requests without a reply are in doubt. Used by one thread at a time.
    """

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
        """Write the request of `ack_and_claim`.

        Raises:
            RedisUnavailable: the connection failed; ``ambiguous`` if the request may have been executed.
        """
        if self._wire is None:
            self._wire = self._redis.own_wire()
        call = ack_and_claim_call(self._redis.keys, owner, queues, limit, finished, effects=effects)
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
        return parse_reply(reply, queues, effects)

    def close(self) -> None:
        self._sent.clear()
        if self._wire is not None:
            self._wire.disconnect()


def claim(redis: Redis, owner: Owner, queues: Sequence[str], limit: int) -> list[PrivateListEntry]:
    """Claim up to ``limit`` jobs, in the order of the queues.

    Raises:
        Fenced: this owner was declared dead and must take a new identity.
        RedisRefused: nothing was claimed, and one of the queues is not a list.
    """
    result = ack_and_claim(redis, owner, queues, limit)
    if result.refused and not result.claimed:
        raise refusal(result.refused)
    return [PrivateListEntry(owner, queue, raw) for queue, raw in result.claimed]


def refusal(reason: str) -> RedisRefused:
    """The error for a queue that exists and could not be read."""
    return RedisRefused(f"the server refused a command: {reason}", code=reason.partition(" ")[0])


def acknowledge(redis: RunsScripts, entry: PrivateListEntry) -> bool:
    """Remove a finished job."""
    reply = redis.run(*ack_and_claim_call(redis.keys, entry.owner, (), 0, [(entry.queue, entry.raw)]))
    return not parse_reply(reply, ()).gone


def settle(
    redis: RunsScripts,
    entry: PrivateListEntry,
    stored: Argument,
    *,
    to: Literal["set", "dead", "queue", "quarantine"],
    keys: tuple[str, str],
    amount: Argument,
    most: int = 0,
    identifier: str = "",
) -> bool:
    """Move the job out of its private list; see the script. False if it was missing.

    Raises:
        Fenced: the owner was declared dead.
    """
    own = [redis.keys.fenced(entry.owner.identity), _list(redis, entry.owner, entry.queue), *keys]
    return bool(redis.run(SETTLE, own, [entry.raw, stored, to, amount, most, identifier]))


def postpone(
    redis: RunsScripts, entry: PrivateListEntry, sorted_set: str, payload: bytes, delay_seconds: float
) -> bool:
    """Move the job to ``sorted_set`` (key of the retry set or the schedule), due after a delay."""
    return settle(redis, entry, payload, to="set", keys=(sorted_set, sorted_set), amount=repr(delay_seconds))


def bury(redis: RunsScripts, entry: PrivateListEntry, payload: bytes, limits: DeadSetLimits) -> bool:
    """Move the job to the dead set."""
    dead = redis.keys.dead
    return settle(
        redis, entry, payload, to="dead", keys=(dead, dead), amount=limits.timeout_seconds, most=limits.max_jobs
    )


def put_back(redis: RunsScripts, entries: Sequence[tuple[PrivateListEntry, bytes]]) -> list[bool]:
    """Requeue jobs at the head of their queues, each with the payload to store.

    Args:
        entries: jobs of one identity.

    Returns:
        For each job whether it moved. If not, it is no longer in its list.

    Raises:
        RedisRefused: a queue refuses its job, which stays in the private list; all other jobs have moved.
    """
    replies: list[int] = []
    for start in range(0, len(entries), PUT_BACK_BATCH):
        batch = entries[start : start + PUT_BACK_BATCH]
        keys = [redis.keys.fenced(batch[0][0].owner.identity), redis.keys.queues]
        arguments: list[Argument] = ["", 0]
        for entry, payload in batch:
            keys += (_list(redis, entry.owner, entry.queue), redis.keys.queue(entry.queue))
            arguments += (entry.raw, payload, entry.queue)
        replies += redis.run(REQUEUE, keys, arguments)
    if _REFUSED in replies:
        queue = entries[replies.index(_REFUSED)][0].queue
        raise RedisRefused(f"{redis.keys.queue(queue)} is not a list, so its jobs cannot be requeued", code="WRONGTYPE")
    return [reply == 1 for reply in replies]


def put_last(redis: RunsScripts, entry: PrivateListEntry) -> bool:
    """Move the job to the tail of its queue, unchanged."""
    keys = redis.keys.queue(entry.queue), redis.keys.queues
    return settle(redis, entry, entry.raw, to="queue", keys=keys, amount=entry.queue)


def owns(redis: Redis, entry: PrivateListEntry) -> bool:
    """Whether the job is in the private list, and its owner was not declared dead."""
    fenced, found = redis.pipeline(
        [
            ("EXISTS", redis.keys.fenced(entry.owner.identity)),
            ("LPOS", _list(redis, entry.owner, entry.queue), entry.raw),
        ]
    )
    return not fenced and found is not None


def copies(redis: Redis, entry: PrivateListEntry) -> int:
    """Count the entries with exactly these bytes in the private list of ``entry``.

    Raises:
        Fenced: the owner was declared dead; other processes may have taken jobs from its list.
    """
    # In this order: an owner is fenced before jobs leave its list, so a fence between the two commands is seen.
    found, fenced = redis.pipeline(
        [
            ("LPOS", _list(redis, entry.owner, entry.queue), entry.raw, "COUNT", 0),
            ("EXISTS", redis.keys.fenced(entry.owner.identity)),
        ]
    )
    if fenced:
        raise Fenced(f"{entry.owner.identity} was declared dead", code="FENCED")
    return len(found)


def _list(redis: RunsScripts, owner: Owner, queue: str) -> str:
    return redis.keys.working(owner.identity, owner.capsule, queue)
