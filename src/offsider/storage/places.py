"""Places where jobs lie, and the one script that moves jobs between them.

Within a server a move is one script: it finds the job, writes the destination and removes the job from its place last.
A move to another server takes three steps:

1. The script moves the job into the list of jobs in transit to the other server.
2. `deliver` stores it there with `store_once`.
3. It removes the job from the list.

A crash leaves the job in that list, and the next move repeats step 2, which stores each job once.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode_object
from offsider.storage.keys import Keys
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, RunsScripts, Script
from offsider.storage.store_once import QUEUE, Transfer, store_once

MOVE = Script("move")

#: Maximum number of jobs that one script moves.
BATCH = 500
_DELIVERED_AT_ONCE = 200
_PROBE_SECONDS = 10


class MoveResult(Enum):
    """The result of a move."""

    DONE = 1
    GONE = 0
    REFUSED = -1


class Move(NamedTuple):
    """The move of one job.

    Attributes:
        job: the stored payload; in quarantine its id.
        payload: what the destination stores: the job, or its head in quarantine.
        detail: name of the destination's queue, score in the set, or id in quarantine.
        position: number of jobs before it in a list, when it was read.
    """

    job: bytes
    payload: bytes = b""
    detail: Argument = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class Destination:
    """Where jobs go.

    Attributes:
        kind: ``list``, ``set``, ``dead``, ``quarantine``, or ``none`` to delete them.
        name: the set, or the other server to which jobs leave; empty for the queue that each move names.
        seconds, most: retention, and size limit of the dead set.
    """

    kind: Literal["list", "set", "dead", "quarantine", "none"]
    name: str = ""
    seconds: float = 0
    most: int = 0

    def keys(self, keys: Keys, moves: Sequence[Move]) -> list[str]:
        """Return the keys of the script after its first one."""
        match self.kind:
            case "list" if self.name:
                further = [keys.transits, keys.quarantined_jobs, *[keys.transit(self.name)] * len(moves)]
            case "list":
                further = [keys.queues, keys.quarantined_jobs, *(keys.queue(str(move.detail)) for move in moves)]
            case "set":
                further = [keys.queues, keys.quarantined_jobs, *[keys.prefix + self.name] * len(moves)]
            case _:
                further = [keys.queues, keys.quarantined_jobs, keys.dead if self.kind == "dead" else keys.quarantine]
        return further


QUEUES = Destination("list")
NOWHERE = Destination("none")


def move_call(keys: Keys, place: str, moves: Sequence[Move], to: Destination, *, only_due: bool = False) -> Call:
    """Return the script call that moves jobs, for use in a pipeline.

    Args:
        place: ``queue:<name>``, the name of a set, ``quarantine``, or the key of another list.
        moves: the jobs.
        to: where they go.
        only_due: skip members of a set whose score is in the future.
    """
    kind = "due" if only_due else _KINDS.get(place, "list")
    arguments: list[Argument] = [kind, to.kind, to.seconds, to.most, secrets.token_hex(24)]
    for one in moves:
        arguments += (one.job, -1 - one.position, one.payload, one.detail)
    return MOVE, [key_of(keys, place), *to.keys(keys, moves)], arguments


def move(
    redis: RunsScripts, place: str, moves: Sequence[Move], to: Destination, *, only_due: bool = False
) -> list[MoveResult]:
    """Move jobs out of a place, as `move_call`. A job that another client has taken before is GONE."""
    return [MoveResult(reply) for reply in redis.run(*move_call(redis.keys, place, moves, to, only_due=only_due))]


_KINDS = {"schedule": "set", "retry": "set", "dead": "set", "quarantine": "quarantine"}


def key_of(keys: Keys, place: str) -> str:
    """Return the key of a place."""
    if place == "quarantine":
        return keys.quarantine
    return keys.prefix + place if place in _KINDS or place.startswith(QUEUE) else place


# ---------------------------------------------------------------------------------- between servers


def departing(job: bytes, payload: bytes, queue: str, server: str, position: int) -> Move:
    """Return the move of a job of a list to a queue of another server."""
    head = f"{secrets.token_hex(8)} {quote(queue, safe='')}\n"
    return Move(job, head.encode() + payload, server, position)


def transits(redis: Redis) -> dict[str, int]:
    """Return the number of jobs in transit by server; servers without any are omitted."""
    servers = readable(redis.call("SMEMBERS", redis.keys.transits))
    lengths = redis.pipeline([("LLEN", redis.keys.transit(server)) for server in servers]) if servers else []
    return {server: length for server, length in zip(servers, lengths, strict=True) if length}


def in_transit(redis: Redis, server: str) -> list[bytes]:
    """Return the payloads of all jobs in transit to a server."""
    return [entry.partition(b"\n")[2] for entry in redis.call("LRANGE", redis.keys.transit(server), 0, -1)]


def deliver(redis: Redis, server: str, other: Redis) -> int:
    """Store the jobs in transit to a server there, each once, and return their number.

    Raises:
        RedisRefused: a queue there is not a list. Its jobs stay in transit, as those after them.
        RedisFailure: a server cannot be reached, or refuses all jobs.
    """
    key, count = redis.keys.transit(server), 0
    while entries := redis.call("LRANGE", key, -_DELIVERED_AT_ONCE, -1)[::-1]:
        refusals = store_once(other, [_transfer(entry) for entry in entries])
        stored = [entry for entry, refusal in zip(entries, refusals, strict=True) if refusal is None]
        if stored:
            count += sum(redis.pipeline([("LREM", key, -1, entry) for entry in stored]))
        for refusal in filter(None, refusals):
            raise refusal
    return count


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
    return bool(redis.call("EXISTS", redis.keys.stored("probe", probe(other))))


def _transfer(entry: bytes) -> Transfer:
    head, _, payload = entry.partition(b"\n")
    hop, queue = head.decode().split(" ")
    jid = ""
    with suppress(MalformedPayload):
        jid = str(decode_object(payload).get("jid", ""))
    return Transfer(jid, hop, QUEUE + unquote(queue), payload)
