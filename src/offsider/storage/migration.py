"""Moving stored jobs to other queues of their server, and to other servers.

On one server a move is one script. Two servers have no step in common, so a job goes by way of a journal:

1. One script moves it from its place into a journal beside it, a list that only ever grows at its left.
2. One script on the other server stores it and notes the number of its entry.
3. One script removes the entry.

A journal belongs to one migration and one other server. Its entries have rising numbers and are delivered in that
order, so one number says what has arrived: whoever goes on with a journal that was left behind, however late and
however many at a time, delivers each entry once. The job is always in one of the three places, and runs from the
first or the last.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from offsider.core.errors import RedisRefused
from offsider.storage.job_sets import Moved
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script

SHIFT = Script("shift")
REWRITE = Script("rewrite")
REPLACE = Script("replace")
SET_OUT = Script("set_out")
DELIVER = Script("deliver")
STRIKE_OUT = Script("strike_out")

#: Jobs that one script moves at most; each script costs a walk through the list when they lie deep in a queue.
BATCH = 500
_ENTRIES_AT_ONCE = 200
#: How long a server remembers what has arrived of a journal.
REMEMBERED_SECONDS = 90 * 86_400
#: How many jobs workers may take from a queue between a look at a job and its move.
_TAKEN_MEANWHILE = 1_000
_QUEUE = "queue:"
_MARK_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Shifting:
    """A job of a queue: its bytes, how many jobs were to run before it when it was seen, its new bytes and queue."""

    raw: bytes
    position: int
    payload: bytes
    queue: str


@dataclass(frozen=True, slots=True)
class Journal:
    """What is on its way from one server to another.

    Attributes:
        id: unique among all journals.
        server: the name of the server that its jobs go to, in the configuration of who began it.
    """

    id: str
    server: str

    @classmethod
    def new(cls, server: str) -> Journal:
        return cls(secrets.token_hex(8), server)

    @property
    def name(self) -> str:
        return f"{self.id} {self.server}"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A job that goes into a journal.

    Attributes:
        raw: its bytes where it is.
        position: in a queue, how many jobs were to run before it when it was seen; 0 in a set.
        number: of its entry, greater than that of every earlier one.
        payload: its bytes where it goes.
        where: ``schedule``, ``retry`` or ``queue:<name>`` on the other server.
    """

    raw: bytes
    position: int
    number: int
    payload: bytes
    where: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a journal; ``score`` is empty for a queue."""

    number: int
    score: str
    where: str
    payload: bytes


# ---------------------------------------------------------------------------------- on one server


def shift(redis: Redis, queue: str, jobs: Sequence[Shifting]) -> list[Moved]:
    """Move jobs of one queue to the tails of others, in the order given."""
    keys = redis.keys
    moves = [_Shift(job.raw, job.position, job.payload, keys.queue(job.queue), job.queue) for job in jobs]
    return _run_shift(redis, keys.queue(queue), keys.queues, moves)


def replace(redis: Redis, key: str, jobs: Sequence[tuple[bytes, int, bytes]]) -> list[Moved]:
    """Store other bytes in place of jobs of a list: the bytes of each, its position in a queue's order, the others."""
    arguments: list[Argument] = [_TAKEN_MEANWHILE]
    for raw, position, payload in jobs:
        arguments += (-1 - position, raw, payload)
    return [Moved(reply) for reply in redis.run(REPLACE, [key], arguments)]


def rewrite(redis: Redis, sorted_set: str, pairs: Sequence[tuple[bytes, bytes]]) -> list[Moved]:
    """Store other bytes in place of members, with their scores. Refused when there is a member of these bytes."""
    arguments = [part for pair in pairs for part in pair]
    return [Moved(reply) for reply in redis.run(REWRITE, [redis.keys.prefix + sorted_set], arguments)]


# ------------------------------------------------------------------------------- between two servers


def knock(destination: Redis, journal: Journal) -> None:
    """Make sure, before a job leaves its place, that the other server takes writes.

    Raises:
        QueueFull: it has no memory for more jobs.
        RedisFailure: it cannot be reached, or refuses.
    """
    destination.call("SET", destination.keys.migrated(journal.id), 0, "NX", "EX", REMEMBERED_SECONDS)


def shift_out(redis: Redis, key: str, journal: Journal, jobs: Sequence[Outgoing]) -> list[Moved]:
    """Move jobs of a queue, or of another list in the form of one, into a journal."""
    target = redis.keys.migrating(journal.id)
    moves = [
        _Shift(
            job.raw, job.position, b"%d - %s\n%s" % (job.number, job.where.encode(), job.payload), target, journal.name
        )
        for job in jobs
    ]
    return _run_shift(redis, key, redis.keys.journals, moves)


def set_out(redis: Redis, sorted_set: str, journal: Journal, jobs: Sequence[Outgoing]) -> list[Moved]:
    """Move members of a set into a journal, with their scores."""
    keys = redis.keys
    arguments: list[Argument] = [journal.name]
    for job in jobs:
        arguments += (job.raw, job.number, job.where, job.payload)
    target = [keys.prefix + sorted_set, keys.journals, keys.migrating(journal.id)]
    return [Moved(reply) for reply in redis.run(SET_OUT, target, arguments)]


def deliver(destination: Redis, journal: Journal, entries: Sequence[Entry]) -> int:
    """Store entries on the other server, those that are not there yet, and answer the number of the last one.

    Raises:
        RedisRefused: one cannot be stored; the message names the key. Those before it are.
    """
    keys = destination.keys
    arguments: list[Argument] = [REMEMBERED_SECONDS]
    for entry in entries:
        name = entry.where.removeprefix(_QUEUE) if entry.where.startswith(_QUEUE) else ""
        arguments += (entry.number, name, entry.score, entry.payload)
    targets = [keys.migrated(journal.id), keys.queues, *(keys.prefix + entry.where for entry in entries)]
    last, refused = destination.run(DELIVER, targets, arguments)
    if refused and last < entries[0].number:
        raise RedisRefused(refused.decode("utf-8", "replace"))
    return int(last)


def strike_out(redis: Redis, journal: Journal, last: int) -> int:
    """Remove the entries up to a number, and the journal when it is empty; answers how many."""
    keys = redis.keys
    return int(redis.run(STRIKE_OUT, [keys.migrating(journal.id), keys.journals], [journal.name, last]))


def are_same(redis: Redis, other: Redis) -> bool:
    """Whether both are one place under two names, such as an address and an alias of it: what one notes, both have."""
    mark = secrets.token_hex(8)
    redis.call("SET", redis.keys.migrated(mark), mark, "EX", _MARK_SECONDS)
    found = other.call("GET", other.keys.migrated(mark))
    redis.call("DEL", redis.keys.migrated(mark))
    return bool(found)


def journals(redis: Redis) -> list[Journal]:
    """The journals of a server that are not empty: left behind by a migration that was cut short, or still used."""
    found: list[Journal] = []
    for name in readable(redis.call("SMEMBERS", redis.keys.journals)):
        identifier, _, server = name.partition(" ")
        found.append(Journal(identifier, server))
    return found


def waiting(redis: Redis, journal: Journal) -> int:
    """How many jobs are in a journal."""
    return int(redis.call("LLEN", redis.keys.migrating(journal.id)))


def oldest(redis: Redis, journal: Journal, count: int = _ENTRIES_AT_ONCE) -> list[Entry]:
    """The entries that are to be delivered next, in their order."""
    stored: list[bytes] = redis.call("LRANGE", redis.keys.migrating(journal.id), -count, -1)
    return [_entry(line) for line in reversed(stored)]


def _entry(line: bytes) -> Entry:
    head, _, payload = line.partition(b"\n")
    number, score, where = head.decode().split(" ", 2)
    return Entry(int(number), "" if score == "-" else score, where, payload)


@dataclass(frozen=True, slots=True)
class _Shift:
    """One move of the script: to which list, and under which name that list is known."""

    raw: bytes
    position: int
    stored: bytes
    key: str
    name: str


def _run_shift(redis: Redis, key: str, names: str, moves: Sequence[_Shift]) -> list[Moved]:
    arguments: list[Argument] = [f"offsider:shifted:{secrets.token_hex(16)}", _TAKEN_MEANWHILE]
    for move in moves:
        arguments += (-1 - move.position, move.raw, move.stored, move.name)
    keys = [key, names, *(move.key for move in moves)]
    return [Moved(reply) for reply in redis.run(SHIFT, keys, arguments)]
