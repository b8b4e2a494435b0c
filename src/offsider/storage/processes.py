"""Sidekiq's registry of processes: what its web page and ours list, and how they send signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script

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
    """Drop identities whose hash has expired; one process a minute does so. Answers how many were dropped."""
    if not redis.call("SET", redis.keys.process_cleanup, "1", "NX", "EX", _CLEANUP_SECONDS):
        return 0
    listed = identities(redis)
    if not listed:
        return 0
    infos = redis.pipeline([("HGET", redis.keys.process(identity), "info") for identity in listed])
    gone = [identity for identity, info in zip(listed, infos, strict=True) if info is None]
    if gone:
        redis.call("SREM", redis.keys.processes, *gone)
    return len(gone)


def infos(redis: Redis, listed: Sequence[str]) -> dict[str, bytes]:
    """The ``info`` JSON of each process that has one."""
    if not listed:
        return {}
    replies = redis.pipeline([("HGET", redis.keys.process(identity), "info") for identity in listed])
    return {identity: info for identity, info in zip(listed, replies, strict=True) if info is not None}


def hashes(redis: Redis, listed: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """What each process last wrote of itself, field by field; those that wrote nothing for a minute are left out."""
    if not listed:
        return {}
    replies = redis.pipeline([("HMGET", redis.keys.process(identity), *SHOWN) for identity in listed])
    return {
        identity: {field: value for field, value in zip(SHOWN, values, strict=True) if value is not None}
        for identity, values in zip(listed, replies, strict=True)
        if any(value is not None for value in values)
    }


def leader(redis: Redis) -> str:
    """The identity of the process that leads, ours or one of Sidekiq Enterprise; empty when none does."""
    identity: bytes | None = redis.call("GET", redis.keys.leader)
    return identity.decode("utf-8", "replace") if identity else ""


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
