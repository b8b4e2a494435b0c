"""Batches in Redis. The keys have Sidekiq Pro's names, but offsider's contents.

==================  ======  ===================================================  ==================================
key                 type    contents                                             expires
==================  ======  ===================================================  ==================================
``batches``         zset    bid -> expiry of the batch, in epoch seconds         never (old entries are trimmed)
``b-<bid>``         hash    description, times, callbacks                        30 days after its last block, or
                                                                                 after its last scheduled job is
                                                                                 due; a day after success; with a
                                                                                 dead job like the dead set
``b-<bid>-jids``    set     members that have not succeeded                      with the batch, as all others
``b-<bid>-failed``  hash    jid -> class and error of members that failed
``b-<bid>-died``    hash    the same, of members that died or were removed
``b-<bid>-open``    set     tokens of open blocks: the jid of the job that
                            pushes, else a random one
``b-<bid>-kids``    set     bids of the children
``b-<bid>-pkids``   set     bids of the children that the batch waits for
``b-<bid>-cbsucc``  set     jids of success callbacks that have not succeeded
``b-<bid>-steps``   hash    of a workflow, see `steps`                           like a batch with a dead job
==================  ======  ===================================================  ==================================

Fields of the hash: ``description``, ``parent``, ``queues`` (of callbacks, JSON), ``tags`` and ``data`` (JSON),
``created_at``, ``opened_at``, ``complete_at``, ``success_at``, ``death_at`` and ``invalidated_at`` (milliseconds),
``total``, ``on_complete``, ``on_success`` and ``on_death`` (callbacks as JSON), and ``pushed:<jid>`` (when a callback
was pushed).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from offsider.core.errors import ConfigurationError
from offsider.storage import clocks, hashes, job_sets
from offsider.storage.effects import ArgumentsOf, Effect
from offsider.storage.hashes import texts, whole
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, Script, run_together

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.installation import Installation

_LUA = files("offsider.ext.batches") / "lua"
OPEN = Script("open", _LUA)
JOIN = Script("join", _LUA)
ADVANCE = Script("advance", _LUA)
INVALIDATE = Script("invalidate", _LUA)
FOLLOW = Script("follow", _LUA)

#: Payload keys: the batch of a member, and the batch of a callback.
BID = "bid"
CALLBACK_OF = "batch_callback"

#: Replies of ``open.lua``; -2 if the parent has succeeded.
OPENED, MISSING, FINISHED = 1, 0, -1
STEPS = "-steps"
_PARTS = ("", "-jids", "-failed", "-died", "-open", "-pkids", "-cbsucc")
_MAX_LINEAGES = 10_000
PAGE = 500


class Level(NamedTuple):
    """A batch of a `Lineage`: its bid, and the queues of its callbacks."""

    bid: str
    queues: tuple[str, ...]


#: A batch and its ancestors. It never changes, because callbacks and the parent are known when a batch is created.
Lineage: TypeAlias = tuple[Level, ...]


class Lives(NamedTuple):
    """How long a batch is kept, in seconds: in general, after its success, and after a job of it died."""

    batch: int
    success: int
    dead: int = 0

    @classmethod
    def of(cls, config: Config) -> Lives:
        """Return those of the installed extension. Raises ConfigurationError if it is not installed."""
        found = config.shared.peek(cls)
        if found is None:
            raise ConfigurationError("the extension Batches is not installed; call config.use(Batches())")
        return found._replace(dead=max(found.batch, int(config.worker.dead_timeout_seconds)))


def batches_key(keys: Keys) -> str:
    return f"{keys.prefix}batches"


def batch_key(keys: Keys, bid: str, part: str = "") -> str:
    return f"{keys.prefix}b-{bid}{part}"


class Lineages:
    """The lineages of the batches of one server, read once per process. Thread-safe."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        #: Returns the lineage of a batch; empty if the batch does not exist. Raises RedisFailure.
        self.of: Callable[[str], Lineage] = lru_cache(_MAX_LINEAGES)(self._read)

    def _read(self, bid: str) -> Lineage:
        parent, queues = self._redis.call("HMGET", batch_key(self._redis.keys, bid), "parent", "queues")
        if queues is None:
            return ()
        return (Level(bid, tuple(json.loads(queues))), *(self.of(parent.decode()) if parent else ()))


def lineages(server: Installation) -> Lineages:
    """Return the cache that the process shares for this server."""
    return server.shared.get(Lineages, lambda: Lineages(server.redis))


def joining(keys: Keys, bid: str) -> Effect:
    """Return the effect of the pushes that add jobs to a batch."""
    return Effect(JOIN, (batch_key(keys, bid), batch_key(keys, bid, "-jids")), None, common=())


class Outcomes(NamedTuple):
    """The calls of ``advance.lua`` for the members of one batch.

    Attributes:
        lineage: the batch and its ancestors.
        names: its keys.
        each: its first arguments, before event, id, class and error of each outcome.
        succeeded: the effects of each member that has succeeded.
    """

    lineage: Lineage
    names: Sequence[str]
    each: Sequence[Argument]
    succeeded: Sequence[Effect]

    def effect(self, chosen: ArgumentsOf) -> Effect:
        """Return the effect of a run; ``chosen`` returns `succeeded`, or `other`, or None."""
        return Effect(ADVANCE, self.names, chosen, None, self.each)

    def other(self, event: str, jid: str, about: str) -> Effect:
        return Effect(ADVANCE, self.names, (event, jid, about), None, self.each)

    def call(self, event: str, jid: str, about: str = "") -> Call:
        """Return the call without a run."""
        return ADVANCE, self.names, [*self.each, event, jid, about]


def outcomes(prefix: str, lineage: Lineage, lives: Lives) -> Outcomes:
    """Return the calls for the members of the first batch of the lineage."""
    keys = Keys(prefix)
    names = [batches_key(keys), keys.queues]
    levels: list[Argument] = [lives.success, lives.dead, len(lineage)]
    for level in lineage:
        start = batch_key(keys, level.bid)
        names += [start + part for part in _PARTS]
        names += [keys.queue(queue) for queue in level.queues]
        levels += (level.bid, len(level.queues), *level.queues)
    succeeded = Effect(ADVANCE, names, None, None, (*levels, "succeeded"))
    return Outcomes(lineage, names, (*levels, ""), (succeeded,))


def open_block(
    redis: Redis,
    bid: str,
    parent: str,
    token: str,
    life_seconds: int,
    *,
    fields: Mapping[str, Argument],
    calls: Sequence[str],
    above: Sequence[str],
) -> int:
    """Create a batch with ``fields``, or reopen it without. Return `OPENED`, or why not.

    ``above``: bids of ancestors that must live as long.
    """
    keys = redis.keys
    others = [batch_key(keys, bid, part) for part in ("-jids", "-failed", "-died", "-pkids", "-kids")]
    others += [batch_key(keys, one, part) for one in above for part in (*_PARTS, "-kids")]
    names = [
        batches_key(keys),
        *(batch_key(keys, bid, part) for part in ("", "-open", "-cbsucc")),
        *(batch_key(keys, parent or bid, part) for part in ("", "-kids", "-pkids")),
        *others,
    ]
    arguments: list[Argument] = [token, bid, life_seconds, len(calls), *calls]
    for name, value in fields.items():
        arguments += (name, value)
    return int(redis.run(OPEN, names, arguments))


def forget(redis: Redis, bid: str, parent: str) -> bool:
    """Delete a batch; return whether it existed. Its jobs still run; its parent no longer waits for it."""
    keys = redis.keys
    existed, *_ = run_together(
        redis,
        ("EXISTS", batch_key(keys, bid)),
        *(("SREM", batch_key(keys, parent or bid, part), bid) for part in ("-kids", "-pkids")),
        ("ZREM", batches_key(keys), bid),
        *(("DEL", batch_key(keys, bid, part)) for part in (*_PARTS, "-kids", STEPS)),
    )
    return bool(existed)


def abandon(redis: Redis, lineage: Lineage, token: str) -> list[str]:
    """Delete the pending children, of each batch of the lineage, that a block with this token has left open.

    Returns their bids. They are from a run of the job that was killed: the next run creates others.
    """
    abandoned: list[str] = []
    for level in lineage:
        for found in hashes.scanned(redis, "SSCAN", batch_key(redis.keys, level.bid, "-pkids")):
            bids = [bid.decode() for bid in found]
            opened = redis.pipeline([("SISMEMBER", batch_key(redis.keys, bid, "-open"), token) for bid in bids])
            for bid in (bid for bid, is_open in zip(bids, opened, strict=True) if is_open):
                forget(redis, bid, level.bid)
                abandoned.append(bid)
    return abandoned


def count(redis: Redis) -> int:
    """Return the number of batches that have not expired."""
    return int(redis.call("ZCOUNT", batches_key(redis.keys), clocks.look(redis)[0], "+inf"))


def page(redis: Redis, start: int, count: int) -> list[str]:
    """Return bids of batches: of those with dead jobs, then of unfinished, then of finished ones."""
    if count < 1:
        return []
    bids = redis.call("ZREVRANGE", batches_key(redis.keys), start, start + count - 1)
    return [bid.decode(errors="replace") for bid in bids]


def pages(redis: Redis) -> Iterator[list[str]]:
    """Yield the bids of all batches in pages, in the order of `page`."""
    start = 0
    while bids := page(redis, start, PAGE):
        yield bids
        start += PAGE


def scan_tags(redis: Redis, cursor: str, step: int) -> tuple[str, list[tuple[str, bytes]]]:
    """Scan about ``step`` batches, in no order. Return the next cursor, empty at the end, and bids with stored tags."""
    cursor, members = job_sets.scan_on(redis, batches_key(redis.keys), "", cursor, step)
    bids = [bid.decode(errors="replace") for bid, _ in members]
    commands = [("HGET", batch_key(redis.keys, bid), "tags") for bid in bids]
    replies = redis.pipeline(commands, raise_errors=False) if commands else []
    return cursor, [(bid, tags if isinstance(tags, bytes) else b"") for bid, tags in zip(bids, replies, strict=True)]


def sizes(redis: Redis, bids: Sequence[str]) -> list[tuple[dict[str, str], list[int]]]:
    """Return the fields of each batch, and the sizes of -jids, -failed, -died, -open, -pkids and -cbsucc."""
    commands: list[tuple[Argument, ...]] = []
    for bid in bids:
        commands.append(("HGETALL", batch_key(redis.keys, bid)))
        commands += [
            ("HLEN" if part in ("-failed", "-died") else "SCARD", batch_key(redis.keys, bid, part))
            for part in _PARTS[1:]
        ]
    replies = redis.pipeline(commands, raise_errors=False)
    width = len(_PARTS)
    return [
        (dict(texts(replies[i])), [whole(size) or 0 for size in replies[i + 1 : i + width]])
        for i in range(0, len(replies), width)
    ]


def kids(redis: Redis, bid: str) -> list[str]:
    """Return the bids of the children, at most `PAGE`."""
    _, found = redis.call("SSCAN", batch_key(redis.keys, bid, "-kids"), 0, "COUNT", PAGE)
    return sorted(kid.decode("utf-8", "replace") for kid in found)[:PAGE]


def every(redis: Redis, bid: str, part: str) -> Iterator[tuple[str, str]]:
    """Yield all members in ``-failed`` or ``-died``; one that leaves meanwhile may be missing."""
    for found in hashes.scanned(redis, "HSCAN", batch_key(redis.keys, bid, part)):
        yield from texts(found)


def invalidate(redis: Redis, bid: str) -> bool:
    """Mark a batch as invalid; return whether it exists."""
    return bool(redis.run(INVALIDATE, [batch_key(redis.keys, bid)]))


def valid(redis: Redis, lineage: Lineage) -> bool:
    """Whether no batch of the lineage is invalid."""
    replies = redis.pipeline([("HEXISTS", batch_key(redis.keys, level.bid), "invalidated_at") for level in lineage])
    return not any(replies)
