"""Private lists: where a job lies between its claim and its outcome.

A job leaves Redis only from here, and only by one of these verbs. Each looks whether the entry is still
there, writes the destination, and removes the entry last; each answers False when the entry was gone,
which means that somebody else owns the job now and nothing was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from offsider.core.errors import Fenced, RedisRefused
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

EXCHANGE = Script("exchange")
COUNT = Script("count")
POSTPONE = Script("postpone")
BURY = Script("bury")
PUT_BACK = Script("put_back")

#: Redis' Lua unpacks at most 8,000 values, and a long script holds up everybody else.
BATCH = 100

_REFUSED = -1
NOT_PAUSED: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose private lists: a capsule of a process.

    Attributes:
        identity: ``host:pid:nonce`` of the launcher at the time of the claim.
        capsule: name of the capsule.
    """

    identity: str
    capsule: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One job in a private list."""

    owner: Owner
    queue: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class DeadSetLimits:
    """How many jobs the dead set holds (less one, as Sidekiq's) and for how long."""

    max_jobs: int = 10_000
    timeout_seconds: float = 15_552_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came of one round trip.

    Attributes:
        gone: places, from 0, of the finished jobs that were no longer in their lists: somebody else owns them.
        claimed: queue and payload of each job that was taken, in the order in which they are to run.
        paused: the queues that nothing may be taken from now.
        refused: why a queue gave nothing though it is there; empty when all is well.
    """

    gone: Sequence[int]
    claimed: Sequence[tuple[str, bytes]]
    paused: frozenset[str]
    refused: str


class CalledBack(Protocol):
    """Waiting pops that can be called back."""

    def unblocks(self) -> Sequence[Command]:
        """The commands that call them back."""
        ...

    def called_back(self, replies: Sequence[Any]) -> None:
        """Gets the replies to these commands."""
        ...


def exchange(
    redis: Redis,
    owner: Owner,
    queues: Sequence[str],
    limit: int,
    finished: Sequence[tuple[str, bytes]] = (),
    *,
    parking: CalledBack | None = None,
) -> Exchange:
    """Acknowledge finished jobs and take up to ``limit`` others, in one round trip.

    Args:
        queues: where to look, in this order.
        limit: the most jobs to take; 0 for none.
        finished: queue and payload of each job that is done.
        parking: waiting pops, which are called back in the same round trip; what they brought is theirs to tell.

    Raises:
        Fenced: this owner was declared dead: nothing was acknowledged, and it must take a new identity.
    """
    keys, arguments = exchange_call(redis.keys, owner, queues, limit, finished)
    unblocks = parking.unblocks() if parking is not None else ()
    replies, result = redis.run_after(unblocks, EXCHANGE, keys, arguments)
    if parking is not None:
        parking.called_back(replies)
    return exchanged(result, queues)


def exchange_call(
    keys: Keys, owner: Owner, queues: Sequence[str], limit: int, finished: Sequence[tuple[str, bytes]]
) -> tuple[list[str], list[Argument]]:
    """Keys and arguments of the script."""
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
    return [keys.fenced(owner.identity), keys.paused, *pairs], arguments


def exchanged(reply: Any, queues: Sequence[str]) -> Exchange:
    """The script's reply, in words."""
    gone: list[int] = reply[0]
    indexes: list[int] = reply[1][::2]
    payloads: list[bytes] = reply[1][1::2]
    paused: list[int] = reply[2]
    refused: bytes = reply[3]
    return Exchange(
        gone=[place - 1 for place in gone] if gone else (),
        claimed=[(queues[index - 1], raw) for index, raw in zip(indexes, payloads, strict=True)],
        paused=frozenset([queues[index - 1] for index in paused]) if paused else NOT_PAUSED,
        refused=refused.decode(errors="replace"),
    )


def claim(redis: Redis, owner: Owner, queues: Sequence[str], limit: int) -> list[Entry]:
    """Take up to ``limit`` jobs, from the first queue that has some on.

    Raises:
        Fenced: this owner was declared dead and must take a new identity.
        RedisRefused: nothing could be taken, and one of the queues is not a list.
    """
    result = exchange(redis, owner, queues, limit)
    if result.refused and not result.claimed:
        raise refusal(result.refused)
    return [Entry(owner, queue, raw) for queue, raw in result.claimed]


def refusal(reason: str) -> RedisRefused:
    """The error for a queue that gave nothing though it is there."""
    return RedisRefused(f"the server refused a command: {reason}", code=reason.partition(" ")[0])


def acknowledge(redis: Redis, entry: Entry) -> bool:
    """The job is done."""
    return not exchange(redis, entry.owner, (), 0, [(entry.queue, entry.raw)]).gone


def postpone(redis: Redis, entry: Entry, sorted_set: str, payload: bytes, delay_seconds: float) -> bool:
    """The job runs again later: ``sorted_set`` is the key of the retry set or of the schedule."""
    keys = [*own_keys(redis, entry), sorted_set]
    return bool(redis.run(POSTPONE, keys, [entry.raw, payload, repr(delay_seconds)]))


def bury(redis: Redis, entry: Entry, payload: bytes, limits: DeadSetLimits) -> bool:
    """The job is dead."""
    keys = [*own_keys(redis, entry), redis.keys.dead]
    return bool(redis.run(BURY, keys, [entry.raw, payload, limits.timeout_seconds, limits.max_jobs]))


def put_back(redis: Redis, entries: Sequence[tuple[Entry, bytes]]) -> list[bool]:
    """Jobs go to the head of their queues, each with the payload to store.

    Args:
        entries: jobs of one identity.

    Returns:
        For each job whether it moved. One that did not is no longer in its list.

    Raises:
        RedisRefused: a queue refuses its job, which stays in the private list; all others have moved.
    """
    replies: list[int] = []
    for start in range(0, len(entries), BATCH):
        batch = entries[start : start + BATCH]
        keys = [redis.keys.fenced(batch[0][0].owner.identity), redis.keys.queues]
        arguments: list[Argument] = []
        for entry, payload in batch:
            keys += (_list(redis, entry.owner, entry.queue), redis.keys.queue(entry.queue))
            arguments += (entry.raw, payload, entry.queue)
        replies += redis.run(PUT_BACK, keys, arguments)
    if _REFUSED in replies:
        queue = entries[replies.index(_REFUSED)][0].queue
        raise RedisRefused(f"{redis.keys.queue(queue)} is not a list and takes no job back", code="WRONGTYPE")
    return [reply == 1 for reply in replies]


def owns(redis: Redis, entry: Entry) -> bool:
    """Whether the job is still its owner's: in the private list, and the owner not declared dead."""
    fenced, found = redis.pipeline(
        [
            ("EXISTS", redis.keys.fenced(entry.owner.identity)),
            ("LPOS", _list(redis, entry.owner, entry.queue), entry.raw),
        ]
    )
    return not fenced and found is not None


def copies(redis: Redis, entry: Entry) -> int:
    """How many entries of these very bytes lie in the private list of ``entry``.

    Raises:
        Fenced: the owner was declared dead; what is missing from its list may have been taken by others.
    """
    # In this order: an owner that is fenced in between is fenced before anything leaves its list.
    found, fenced = redis.pipeline(
        [
            ("LPOS", _list(redis, entry.owner, entry.queue), entry.raw, "COUNT", 0),
            ("EXISTS", redis.keys.fenced(entry.owner.identity)),
        ]
    )
    if fenced:
        raise Fenced(f"{entry.owner.identity} was declared dead", code="FENCED")
    return len(found)


def count(redis: Redis, owner: Owner, queues: Sequence[str]) -> int:
    """How many jobs lie in the private lists."""
    return int(redis.run(COUNT, [_list(redis, owner, queue) for queue in queues]))


def contents(redis: Redis, owner: Owner, queues: Sequence[str]) -> list[Entry]:
    """Every job in the private lists, oldest claim first."""
    replies = redis.pipeline([("LRANGE", _list(redis, owner, queue), 0, -1) for queue in queues])
    return [Entry(owner, queue, raw) for queue, raws in zip(queues, replies, strict=True) for raw in reversed(raws)]


def _list(redis: Redis, owner: Owner, queue: str) -> str:
    return redis.keys.working(owner.identity, owner.capsule, queue)


def own_keys(redis: Redis, entry: Entry) -> list[str]:
    """The fenced mark of its owner and the private list: what a script that moves it looks at first."""
    return [redis.keys.fenced(entry.owner.identity), _list(redis, entry.owner, entry.queue)]
