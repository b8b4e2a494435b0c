"""Sidekiq's registry of processes: what its web page and ours list, and how they send signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.errors import OffsiderError
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

HEARTBEAT = Script("heartbeat")
SIGNAL = Script("signal")

EXPIRY_SECONDS = 60
_CLEANUP_SECONDS = 60
#: The fields of a process's hash that are looked at.
SHOWN = ("info", "busy", "beat", "quiet", "rtt_us", "rss")


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat: was the process in the registry before, and a signal left for it."""

    known: bool
    signal: str | None


def heartbeat(
    redis: Redis, identity: str, fields: Mapping[str, Argument], work: Mapping[str, str], *, wire_version: int
) -> Beat:
    """Write the process and its running jobs, to be seen for a minute.

    Args:
        fields: the process hash: info, concurrency, busy, beat, rtt_us, quiet, rss.
        work: thread id -> JSON of queue, payload and run_at.
    """
    keys = redis.keys
    work_key = keys.workers(identity) if wire_version == 6 else keys.work(identity)
    flat = [item for pair in fields.items() for item in pair]
    running = [item for pair in work.items() for item in pair]
    known, signal = redis.run(
        HEARTBEAT,
        [keys.processes, keys.process(identity), work_key, keys.signals(identity)],
        [identity, EXPIRY_SECONDS, len(flat), *flat, *running],
    )
    return Beat(bool(known), signal.decode() if signal else None)


def leave(redis: Redis, identity: str) -> None:
    """Take a process off the registry at its clean exit."""
    keys = redis.keys
    redis.pipeline(
        [
            ("SREM", keys.processes, identity),
            ("UNLINK", keys.process(identity), keys.work(identity), keys.workers(identity)),
        ]
    )


def send_signal(redis: Redis, identity: str, signal: str) -> None:
    """Leave a signal (``TSTP`` quiet, ``TERM`` stop, ``TTIN`` dump) for the next heartbeat of a process."""
    redis.run(SIGNAL, [redis.keys.signals(identity)], [signal, EXPIRY_SECONDS])


def take_signal(redis: Redis, identity: str) -> str | None:
    """Take a signal that was left, as a heartbeat does, without beating."""
    signal = redis.call("RPOP", redis.keys.signals(identity))
    return signal.decode() if signal else None


def identities(redis: Redis) -> list[str]:
    """Every process that is registered, the dead of the last minute among them."""
    return readable(redis.call("SMEMBERS", redis.keys.processes))


def prune(redis: Redis) -> int:
    """Drop identities whose hash has expired, or is none; one process a minute does so. Answers how many there were."""
    if not redis.call("SET", redis.keys.process_cleanup, "1", "NX", "EX", _CLEANUP_SECONDS):
        return 0
    listed = identities(redis)
    if not listed:
        return 0
    known = infos(redis, listed)
    gone = [identity for identity in listed if identity not in known]
    if gone:
        redis.call("SREM", redis.keys.processes, *gone)
    return len(gone)


def infos(redis: Redis, listed: Sequence[str]) -> dict[str, bytes]:
    """The ``info`` JSON of each process that has one; a key that is no hash has none."""
    if not listed:
        return {}
    replies = _read(redis, [("HGET", redis.keys.process(identity), "info") for identity in listed])
    return {identity: info for identity, info in zip(listed, replies, strict=True) if info is not None}


def hashes(redis: Redis, listed: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """What each process last wrote of itself, field by field.

    Those that wrote nothing for a minute are left out, and so is what is no hash: it hides no other.
    """
    if not listed:
        return {}
    replies = _read(redis, [("HMGET", redis.keys.process(identity), *SHOWN) for identity in listed])
    read = ((identity, _fields(values)) for identity, values in zip(listed, replies, strict=True) if values)
    return {identity: fields for identity, fields in read if fields}


def leader(redis: Redis) -> str:
    """The identity of the process that leads, ours or one of Sidekiq Enterprise; empty when none does."""
    [identity] = _read(redis, [("GET", redis.keys.leader)])
    return identity.decode("utf-8", "replace") if identity else ""


def _read(redis: Redis, commands: Sequence[Command]) -> list[Any]:
    """The replies; None in place of a key of another type, which anybody may have written."""
    replies = redis.pipeline(commands, raise_errors=False)
    for reply in replies:
        if isinstance(reply, OffsiderError) and getattr(reply, "code", "") != "WRONGTYPE":
            raise reply
    return [None if isinstance(reply, OffsiderError) else reply for reply in replies]


def _fields(values: Sequence[bytes | None]) -> dict[str, bytes]:
    return {field: value for field, value in zip(SHOWN, values, strict=True) if value is not None}


def work(redis: Redis, listed: Sequence[str]) -> list[tuple[str, str, bytes]]:
    """What the processes run: identity, thread and JSON of each job, as their last heartbeats told."""
    keys = redis.keys
    # Sidekiq 6 writes under a name of its own.
    pairs = [(identity, key) for identity in listed for key in (keys.work(identity), keys.workers(identity))]
    replies = redis.pipeline([("HGETALL", key) for _, key in pairs], raise_errors=False) if pairs else []
    return [
        (identity, tid.decode("utf-8", "replace"), job)
        for (identity, _), reply in zip(pairs, replies, strict=True)
        if isinstance(reply, list)
        for tid, job in zip(cast("list[bytes]", reply)[::2], cast("list[bytes]", reply)[1::2], strict=True)
    ]
