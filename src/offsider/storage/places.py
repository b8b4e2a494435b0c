"""Places that contain jobs, and the one script that moves jobs between them.

Within a server a move is one script: it finds the job, writes the destination and removes the job from its place last.
A move to another server takes three steps:

1. The script moves the job into the list of jobs in transit to the other server.
2. `deliver` stores it there with `store_once`.
3. It removes the job from the list.

A crash leaves the job in that list, and the next move repeats step 2, which stores each job once.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Literal, NamedTuple, cast
from urllib.parse import quote, unquote

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode_object
from offsider.storage import job_sets, owners, queue_walk, queues
from offsider.storage.keys import Keys
from offsider.storage.queue_walk import Position
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, Command, RunsScripts, Script
from offsider.storage.store_once import QUEUE, Transfer, store_once
from offsider.storage.working import DeadSetLimits

MOVE = Script("move")

#: Maximum number of jobs that one script moves.
BATCH = 500
#: Maximum number of places of a sample.
MAX_SAMPLED_PLACES = 200
#: Approximate bytes that a sample reads from each end of a place.
MAX_SAMPLED_BYTES = 5_000_000
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
class MoveTarget:
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


QUEUES = MoveTarget("list")
NOWHERE = MoveTarget("none")


def dead_set(limits: DeadSetLimits) -> MoveTarget:
    """Return the dead set as a target; it is trimmed after the move."""
    return MoveTarget("dead", seconds=limits.timeout_seconds, most=limits.max_jobs)


def move_call(keys: Keys, place: str, moves: Sequence[Move], to: MoveTarget, *, only_due: bool = False) -> Call:
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
    redis: RunsScripts, place: str, moves: Sequence[Move], to: MoveTarget, *, only_due: bool = False
) -> list[MoveResult]:
    """Move jobs out of a place, as `move_call`. A job that another client has taken before is GONE."""
    return [MoveResult(reply) for reply in redis.run(*move_call(redis.keys, place, moves, to, only_due=only_due))]


_KINDS = {"schedule": "set", "retry": "set", "dead": "set", "quarantine": "quarantine"}


class PlacedJob(NamedTuple):
    """A stored job.

    Attributes:
        raw: the payload.
        position: number of jobs before it in a list, when it was read.
        score: its score in a set; its expiry in quarantine, in epoch seconds.
        id, head: its id and its line of JSON in quarantine.
    """

    raw: bytes
    position: int = 0
    score: float = 0.0
    id: str = ""
    head: bytes = b""


class PlacePage(NamedTuple):
    """A part of a place: its jobs, the number of scanned ones, and the cursor of the next part; empty at the end."""

    jobs: list[PlacedJob]
    scanned: int
    cursor: str


class Place:
    """A list or set that contains jobs.

    Args:
        redis: its server.
        name: ``queue:<name>``, ``schedule``, ``retry``, ``dead``, ``quarantine``, or the key of another list.
        is_private: a private list of a worker, from which only its owner removes jobs.
    """

    def __init__(self, redis: Redis, name: str, *, is_private: bool = False) -> None:
        self._redis = redis
        self.name = name
        self.key = key_of(redis.keys, name)
        self.is_list = name not in _KINDS
        self.is_private = is_private

    @property
    def length(self) -> Command:
        """The command that returns the number of its jobs."""
        return ("LLEN" if self.is_list else "ZCARD", self.key)

    def __len__(self) -> int:
        return int(self._redis.call(*self.length))

    def read(self, cursor: str, count: int, text: str = "") -> PlacePage:
        """Read about ``count`` jobs: of a list in the order in which they run, of a set in no order.

        A walk from the beginning (an empty or unknown cursor) to the end finds each job that stays, perhaps twice.

        Args:
            text: the server may leave out jobs of a set without it.
        """
        if self.is_list:
            start, raws = queue_walk.read_on(self._redis, self.key, Position.read(cursor), count)
            after = Position.read(cursor).after(start + len(raws), raws).written if len(raws) == count else ""
            return PlacePage([PlacedJob(self._job(raw), at) for at, raw in enumerate(raws, start)], len(raws), after)
        if self.name == "quarantine":
            following, ids = job_sets.scan_on(self._redis, self.key, "", cursor, count)
            return PlacePage(quarantined(self._redis, ids), max(count, len(ids)), following)
        following, pairs = job_sets.scan_on(self._redis, self.key, text, cursor, count)
        jobs = sorted((PlacedJob(raw, score=score) for raw, score in pairs), key=lambda job: job.score)
        return PlacePage(jobs, max(count, len(pairs)), following)

    def after(self, cursor: str, page: PlacePage, removed: Collection[int]) -> str:
        """Return the cursor after a page that ``cursor`` has read, and some of whose jobs have left since."""
        if not (self.is_list and page.cursor):
            return page.cursor
        left = [job.raw for at, job in enumerate(page.jobs) if at not in removed]
        return Position.read(cursor).after(page.jobs[0].position + len(left), left).written

    def each(self) -> Iterator[PlacedJob]:
        """Yield all jobs."""
        cursor, is_first = "", True
        while cursor or is_first:
            page = self.read(cursor, BATCH)
            yield from page.jobs
            cursor, is_first = page.cursor, False

    def move(self, moves: Sequence[Move], to: MoveTarget, *, through: RunsScripts | None = None) -> list[MoveResult]:
        """Move jobs out of this place, as `move`.

        Args:
            through: its server, which runs the effects of the moves in the same script.
        """
        if self.is_private:
            raise RuntimeError(f"{self.name} is a private list: only its owner removes jobs")
        return move(through or self._redis, self.name, moves, to)

    def _job(self, raw: bytes) -> bytes:
        return raw.partition(b"\n")[2] if self.key.startswith(self._redis.keys.transits) else raw


def quarantined(redis: Redis, listed: Sequence[tuple[bytes, float]]) -> list[PlacedJob]:
    """Return the jobs in quarantine with these ids and expiries; those that have left are omitted."""
    ids = [identifier for identifier, _ in listed]
    entries: list[bytes | None] = redis.call("HMGET", redis.keys.quarantined_jobs, *ids) if ids else []
    found: list[PlacedJob] = []
    for (identifier, until), entry in zip(listed, entries, strict=True):
        if entry is not None:
            head, _, raw = entry.partition(b"\n")
            found.append(PlacedJob(raw, 0, until, identifier.decode("utf-8", "replace"), head))
    return found


def sample(redis: Redis, found: Iterable[Place], *, each: int) -> dict[str, list[bytes]]:
    """Return up to ``each`` jobs from each end of every place, by its name; fewer where jobs are large.

    A key of the wrong type has no jobs. Places after the first 200 are left out.
    """
    listed = list(islice(found, MAX_SAMPLED_PLACES))
    measures = [question for place in listed for question in (place.length, ("MEMORY", "USAGE", place.key))]
    sizes = redis.pipeline(measures, raise_errors=False)
    ends: list[Command] = []
    for place, count, used in zip(listed, sizes[::2], sizes[1::2], strict=True):
        is_known = isinstance(count, int) and isinstance(used, int) and used > 0
        most = max(1, min(each, MAX_SAMPLED_BYTES * count // used)) if is_known else each
        verb = "LRANGE" if place.is_list else "ZRANGE"
        ends += [(verb, place.key, 0, most - 1), (verb, place.key, -most, -1)]
    replies = redis.pipeline(ends, raise_errors=False)
    found_jobs = [cast("list[bytes]", reply) if isinstance(reply, list) else [] for reply in replies]
    pairs = zip(listed, found_jobs[::2], found_jobs[1::2], strict=True)
    # In a short list they overlap.
    return {place.name: list(dict.fromkeys([*first, *last])) for place, first, last in pairs}


def private_lists(redis: Redis) -> list[Place]:
    """Return the private lists of all workers."""
    keys = [key for lists in owners.registered(redis) for key in lists.keys(redis)]
    return [Place(redis, key, is_private=True) for key in keys]


def every(redis: Redis) -> Iterator[Place]:
    """Yield each place of a server, lists of extensions included, in the order in which jobs move.

    A walk finds every job that does not start to run during the walk: private lists come first and once more after the
    queues, since a claimed job that has not run returns to a queue, a set, or a list of an extension.
    """
    yield from private_lists(redis)
    yield from (Place(redis, name) for name in ("schedule", "retry"))
    yield from (Place(redis, redis.keys.transit(server)) for server in transits(redis))
    yield from (Place(redis, f"{QUEUE}{name}") for name in queues.names(redis))
    yield from (Place(redis, key) for key in queues.extension_lists(redis))
    yield from private_lists(redis)
    yield from (Place(redis, name) for name in ("dead", "quarantine"))


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


def probe(redis: Redis) -> None:
    """Write a short-lived key, before jobs leave for a server.

    Raises:
        QueueFull: the server has no memory for more jobs.
        RedisFailure: it cannot be reached, or refuses.
    """
    redis.call("SET", redis.keys.stored("probe", secrets.token_hex(8)), 1, "EX", _PROBE_SECONDS)


def _transfer(entry: bytes) -> Transfer:
    head, _, payload = entry.partition(b"\n")
    hop, queue = head.decode().split(" ")
    jid = ""
    with suppress(MalformedPayload):
        jid = str(decode_object(payload).get("jid", ""))
    return Transfer(jid, hop, QUEUE + unquote(queue), payload)
