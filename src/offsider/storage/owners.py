"""The registry of owners of private lists: which are alive, suspected or fenced.

Sidekiq's ``processes`` does not serve: any Ruby process prunes it, and the private lists of a pruned owner would never
be found. All times are by the server's clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from offsider.core.errors import Fenced
from offsider.storage import hashes
from offsider.storage.events import DIED, MAX_EVENTS
from offsider.storage.keys import FENCE_SECONDS
from offsider.storage.redis import Redis
from offsider.storage.scripts import Script
from offsider.storage.working import Owner, PrivateListEntry

BEAT = Script("beat")
LOOK = Script("look")
FENCE = Script("fence")
FORGET = Script("forget")
NOTE_STOP = Script("note_stop")

#: How an owner died whose end no process has seen.
SILENT = "sent no heartbeat"
#: Time between the two checks that must find all lists of a dead owner empty.
FORGET_AFTER_MS = 60_000

_SCAN_COUNT = 1_000


class Lists(NamedTuple):
    """The private lists of one identity: the queues of each of its capsules."""

    identity: str
    queues: Mapping[str, Sequence[str]]

    def owners(self) -> Iterator[tuple[Owner, Sequence[str]]]:
        for capsule, queues in self.queues.items():
            yield Owner(self.identity, capsule), queues

    def keys(self, redis: Redis) -> list[str]:
        return [
            redis.keys.working(self.identity, capsule, queue)
            for capsule, queues in self.queues.items()
            for queue in queues
        ]


def beat(redis: Redis, lists: Lists, life_ms: int) -> None:
    """Renew the liveness key of this owner for ``life_ms``, and register its lists.

    Raises:
        Fenced: it was declared dead.
    """
    _beat(redis, lists.identity, life_ms, json.dumps(lists.queues))


def renew(redis: Redis, identity: str, life_ms: int) -> bool:
    """Renew the liveness key of an owner. False if there is none: it has expired, or the owner has left or was fenced.

    An owner that has the key is registered and not fenced, because one script writes or deletes both.
    """
    return bool(redis.call("PEXPIRE", redis.keys.alive(identity), life_ms))


def prolong(redis: Redis, identity: str, life_ms: int) -> bool:
    """Renew the liveness key of a registered owner on its behalf. False if it has left or was fenced."""
    try:
        return renew(redis, identity, life_ms) or _beat(redis, identity, life_ms)
    except Fenced:
        return False


def _beat(redis: Redis, identity: str, life_ms: int, lists: str = "") -> bool:
    keys = redis.keys
    own = [keys.fenced(identity), keys.alive(identity), keys.owners, keys.suspects]
    return bool(redis.run(BEAT, own, [identity, life_ms, lists]))


def lists_of(redis: Redis, identity: str) -> Lists | None:
    """Return the registered lists of an owner; None if it has left, or its entry is unreadable."""
    queues = redis.call("HGET", redis.keys.owners, identity)
    return None if queues is None else _parse_lists(identity.encode(), queues)


class Claimed(NamedTuple):
    """A job in a private list.

    Attributes:
        identity: the owner of the list.
        queue: the queue that the job was claimed from.
        raw: the job.
        is_alive: whether the owner has not been silent for ``worker.liveness_seconds``.
    """

    identity: str
    queue: str
    raw: bytes
    is_alive: bool


def claimed_with(redis: Redis, text: str) -> Iterator[Claimed]:
    """Yield the jobs in private lists that contain a text."""
    places = [(owner, queue) for lists in registered(redis) for owner, queues in lists.owners() for queue in queues]
    keys = [redis.keys.working(owner.identity, owner.capsule, queue) for owner, queue in places]
    replies = redis.pipeline([("LRANGE", key, 0, -1) for key in keys], raise_errors=False) if keys else []
    needle = text.encode()
    for (owner, queue), reply in zip(places, replies, strict=True):
        for raw in cast("list[bytes]", reply) if isinstance(reply, list) else ():
            if needle in raw:
                is_alive = bool(redis.call("EXISTS", redis.keys.alive(owner.identity)))
                yield Claimed(owner.identity, queue, raw, is_alive)


def registered(redis: Redis) -> list[Lists]:
    """Return all owners in the registry. Unreadable entries are omitted; `adopt_strays` finds their lists."""
    stored = hashes.pairs(redis.call("HGETALL", redis.keys.owners))
    return [lists for identity, queues in stored if (lists := _parse_lists(identity, queues)) is not None]


def _parse_lists(identity: bytes, queues: bytes) -> Lists | None:
    try:
        return Lists(identity.decode(), {capsule: tuple(names) for capsule, names in json.loads(queues).items()})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def count(redis: Redis) -> int:
    """Return the number of owners in the registry."""
    return int(redis.call("HLEN", redis.keys.owners))


def look(redis: Redis, identities: Sequence[str], life_ms: int) -> list[str]:
    """Check each owner once, and return those that may be declared dead."""
    keys = [redis.keys.suspects, redis.keys.owners]
    for identity in identities:
        keys += (redis.keys.alive(identity), redis.keys.fenced(identity))
    return [identity.decode() for identity in redis.run(LOOK, keys, [life_ms, *identities])]


def fence(redis: Redis, lists: Lists, *, how: str = "") -> bool:
    """Fence an owner, so that it can no longer write, and append its death to the event log. False if it is alive.

    Args:
        how: how its process ended, if the caller saw that, so that an unexpired liveness key is ignored.
    """
    keys = redis.keys
    own = [keys.alive(lists.identity), keys.fenced(lists.identity), keys.suspects, keys.events, *lists.keys(redis)]
    event = (MAX_EVENTS, DIED, SILENT)
    return bool(redis.run(FENCE, own, [FENCE_SECONDS, lists.identity, how, *event]))


def note_stop(redis: Redis, identity: str) -> None:
    """Note that this owner is stopping: if it is killed before it exits, its jobs get no strike."""
    redis.run(NOTE_STOP, [redis.keys.owners, redis.keys.suspects], [identity])


def forget(redis: Redis, lists: Lists, *, leaving: bool) -> bool:
    """Remove an owner from the registry once its lists are empty.

    Args:
        leaving: the owner itself calls this at a clean exit, so one check is enough.
    """
    keys = redis.keys
    return bool(
        redis.run(
            FORGET,
            [keys.owners, keys.suspects, keys.alive(lists.identity), *lists.keys(redis)],
            [lists.identity, 0 if leaving else FORGET_AFTER_MS],
        )
    )


def newest(redis: Redis, lists: Lists, limit: int | None = None) -> list[PrivateListEntry]:
    """Return up to ``limit`` jobs of each private list, or all, latest claim first.

    Requeued in this order at the head of a queue, batch by batch, the oldest job runs first.
    """
    owned = [(owner, queue) for owner, queues in lists.owners() for queue in queues]
    last = -1 if limit is None else limit - 1
    commands = [("LRANGE", redis.keys.working(o.identity, o.capsule, queue), 0, last) for o, queue in owned]
    replies = redis.pipeline(commands)
    return [
        PrivateListEntry(owner, queue, raw) for (owner, queue), raws in zip(owned, replies, strict=True) for raw in raws
    ]


def held(redis: Redis, lists: Lists) -> int:
    """Count the jobs in all private lists of an owner."""
    return sum(redis.pipeline([("LLEN", key) for key in lists.keys(redis)]))


def adopt_strays(redis: Redis) -> int:
    """Register the owners of private lists that are not in the registry. Returns the number of lists found.

    A safety net: it scans keys for lists whose owner was removed, or which survived a partial restore.
    """
    known = {lists.identity: {c: set(q) for c, q in lists.queues.items()} for lists in registered(redis)}
    strays: dict[str, dict[str, list[str]]] = {}
    found = 0
    for key in _scan(redis, redis.keys.every_working):
        owner_and_queue = _parse_working(redis, key)
        if owner_and_queue is None:
            continue
        owner, queue = owner_and_queue
        if queue in known.get(owner.identity, {}).get(owner.capsule, ()):
            continue
        strays.setdefault(owner.identity, {}).setdefault(owner.capsule, []).append(queue)
        found += 1
    for identity, queues in strays.items():
        merged = {capsule: sorted(names) for capsule, names in known.get(identity, {}).items()}
        for capsule, names in queues.items():
            merged[capsule] = sorted({*merged.get(capsule, ()), *names})
        redis.call("HSET", redis.keys.owners, identity, json.dumps(merged))
    return found


def _scan(redis: Redis, pattern: str) -> Iterator[str]:
    cursor = b"0"
    while True:
        cursor, keys = redis.call("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT, "TYPE", "list")
        yield from (key.decode(errors="replace") for key in keys)
        if cursor == b"0":
            return


def _parse_working(redis: Redis, key: str) -> tuple[Owner, str] | None:
    """Parse host, pid, nonce, capsule and queue from a key. Host and queue may contain colons, the others cannot."""
    parts = key.removeprefix(redis.keys.working_start).split(":")
    for index in range(1, len(parts) - 3):
        pid, nonce = parts[index], parts[index + 1]
        if pid.isdigit() and len(nonce) == 12:
            identity = ":".join(parts[: index + 2])
            return Owner(identity, parts[index + 2]), ":".join(parts[index + 3 :])
    return None
