"""Moves stored jobs to other queues of their server, and to other servers.

On one server a move is one script. A move to another server takes three steps:

1. `move` claims it: the script moves it into the list of jobs in transit to the other server.
2. `store_once` stores it there.
3. `arrived` removes it from the list.

A crash leaves the job in the list, and the next migration repeats step 2, which stores each job once.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode_object
from offsider.storage.job_sets import MoveResult
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script
from offsider.storage.store_once import QUEUE, Transfer

MOVE = Script("move")

#: Maximum number of jobs that one script moves.
BATCH = 500
_DELIVERED_AT_ONCE = 200
_PROBE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Step:
    """The move of one job.

    Attributes:
        raw: the stored payload.
        payload: the new payload; empty if the job stays. A job that stays in a list moves to its tail.
        where: ``queue:<name>``, ``schedule`` or ``retry``; empty for a new payload in the same list or set.
        server: the destination server; empty for this one.
    """

    raw: bytes
    payload: bytes = b""
    where: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True)
class Transit:
    """A list of jobs on their way to another server."""

    id: str
    server: str


@dataclass(frozen=True, slots=True)
class InTransit:
    """A job in transit, and its entry in the list."""

    entry: bytes
    transfer: Transfer


def move(redis: Redis, key: str, steps: Sequence[Step]) -> list[MoveResult]:
    """Move jobs of a list, in the order in which they run, or of a sorted set.

    A job of a list is GONE unless it is the next job of the list when the script reaches it.
    """
    keys = redis.keys
    targets = [key, keys.queues, keys.transits]
    arguments: list[Argument] = []
    for step in steps:
        if step.server:
            targets.append(keys.migrating(step.server))
            stored = b"%s\n%s" % (_one_line(step.where).encode(), step.payload)
            arguments += (step.raw, stored, step.server, secrets.token_hex(8))
        else:
            targets.append(keys.prefix + step.where if step.where else key)
            arguments += (step.raw, step.payload, step.where.removeprefix(QUEUE), "")
    return [MoveResult(reply) for reply in redis.run(MOVE, targets, arguments)]


def next_jobs(redis: Redis, key: str, count: int, turned: int, first: bytes | None) -> list[bytes]:
    """The next jobs of a list, without those that `move` has moved to its tail.

    Args:
        turned: number of jobs moved to the tail.
        first: the first of them, which ends the walk, even if other jobs were pushed since.
    """
    length, read = redis.pipeline([("LLEN", key), ("LRANGE", key, -count, -1)])
    jobs: list[bytes] = read[::-1][: max(0, length - turned)]
    # An equal job that has not been moved to the tail yet would end the walk too early.
    if first in jobs and len(redis.call("LPOS", key, first, "COUNT", 0)) <= 1:
        return jobs[: jobs.index(first)]
    return jobs


def transits(redis: Redis) -> list[Transit]:
    """All lists of jobs in transit, including empty ones. Earlier revisions gave each list an id."""
    named = [name.partition(" ") for name in readable(redis.call("SMEMBERS", redis.keys.transits))]
    return [Transit(identifier, server or identifier) for identifier, _, server in named]


def waiting(redis: Redis, transit: Transit) -> int:
    """How many jobs are in transit."""
    return int(redis.call("LLEN", redis.keys.migrating(transit.id)))


def in_transit(redis: Redis, transit: Transit, count: int = _DELIVERED_AT_ONCE) -> list[InTransit]:
    """The oldest jobs in transit."""
    entries: list[bytes] = redis.call("LRANGE", redis.keys.migrating(transit.id), -count, -1)
    return [_read(entry) for entry in reversed(entries)]


def arrived(redis: Redis, transit: Transit, jobs: Sequence[InTransit]) -> int:
    """Remove jobs that the other server has stored. Returns the number removed by this call."""
    key = redis.keys.migrating(transit.id)
    return sum(redis.pipeline([("LREM", key, -1, job.entry) for job in jobs])) if jobs else 0


def probe(redis: Redis) -> str:
    """Write a short-lived key, before jobs leave for a server, and return its id.

    Raises:
        QueueFull: the server has no memory for more jobs.
        RedisFailure: it cannot be reached, or refuses.
    """
    identifier = secrets.token_hex(8)
    redis.call("SET", redis.keys.stored("probe", identifier), 1, "EX", _PROBE_SECONDS)
    return identifier


def are_same(redis: Redis, other: Redis) -> bool:
    """Whether both connect to the same server and database, for example by an address and its alias."""
    return bool(other.call("EXISTS", other.keys.stored("probe", probe(redis))))


def _read(entry: bytes) -> InTransit:
    head, _, payload = entry.partition(b"\n")
    hop, score, where = head.decode().split(" ", 2)
    jid = ""
    with suppress(MalformedPayload):
        jid = str(decode_object(payload).get("jid", ""))
    return InTransit(entry, Transfer(jid, hop, unquote(where), payload, "" if score == "-" else score))


def _one_line(where: str) -> str:
    """Escape line breaks: a queue can have any name, and the head of an entry is one line."""
    return where.replace("%", "%25").replace("\n", "%0A")
