"""Sidekiq's registry of processes. Web pages, Sidekiq's and ours, list it and send signals through it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from offsider.core.errors import OffsiderError
from offsider.storage import activity
from offsider.storage.activity import EXPIRY_SECONDS
from offsider.storage.commands import run_together
from offsider.storage.keys import Keys
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

HEARTBEAT = Script("heartbeat")

PRUNE_SECONDS = 60
#: Fields of the process hash that offsider reads.
SHOWN = ("info", "concurrency", "busy", "beat", "quiet", "rtt_us", "rss", activity.FIELD)


def heartbeat(
    redis: Redis,
    identity: str,
    fields: Mapping[str, Argument],
    work: Mapping[str, str],
    *,
    queues: Sequence[str] = (),
    wire_version: int,
) -> bool:
    """Write the process and its running jobs, with an expiry of a minute, and register its queues.

    Returns whether the process was registered before.

    Args:
        fields: the process hash: info, concurrency, busy, beat, rtt_us, quiet, rss.
        work: thread id -> JSON of queue, payload and run_at.
        queues: names to add to the set of queues.
    """
    keys = redis.keys
    flat = [item for pair in fields.items() for item in pair]
    running = [item for pair in work.items() for item in pair]
    known = redis.run(
        HEARTBEAT,
        [keys.processes, keys.process(identity), work_key(keys, identity, wire_version), keys.queues],
        [identity, EXPIRY_SECONDS, len(flat), len(queues), *flat, *queues, *running],
    )
    return bool(known)


def work_key(keys: Keys, identity: str, wire_version: int) -> str:
    """Return the hash of the running jobs of a process."""
    return keys.workers(identity) if wire_version == 6 else keys.work(identity)


def leave(redis: Redis, identity: str) -> None:
    """Remove a process from the registry at a clean exit."""
    keys = redis.keys
    redis.pipeline(
        [
            ("SREM", keys.processes, identity),
            ("UNLINK", keys.process(identity), keys.work(identity), keys.workers(identity), keys.registered(identity)),
        ]
    )


def publish_jobs(redis: Redis, identity: str, signatures: Mapping[str, str]) -> None:
    """Publish the jobs that a process can run. Expires after a minute; prolong it at each heartbeat.

    Args:
        signatures: name -> digest of the job's signature.
    """
    encoded = json.dumps(signatures, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    redis.call("SET", redis.keys.registered(identity), encoded, "EX", EXPIRY_SECONDS)


def keep_published(redis: Redis, identity: str) -> bool:
    """Prolong what `publish_jobs` has written. False if it has expired."""
    return bool(redis.call("EXPIRE", redis.keys.registered(identity), EXPIRY_SECONDS))


def published_jobs(redis: Redis, identities: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the jobs of each process as name -> digest. Processes that publish none, such as Ruby's, are omitted."""
    if not identities:
        return {}
    replies = redis.call("MGET", *map(redis.keys.registered, identities))
    decoded = {identity: _signatures(raw) for identity, raw in zip(identities, replies, strict=True)}
    return {identity: signatures for identity, signatures in decoded.items() if signatures is not None}


def send_signal(redis: Redis, identity: str, signal: str) -> None:
    """Leave a signal (``TSTP`` quiet, ``TERM`` stop, ``TTIN`` dump) for a process."""
    key = redis.keys.signals(identity)
    run_together(redis, ("LPUSH", key, signal), ("EXPIRE", key, EXPIRY_SECONDS))


def identities(redis: Redis) -> list[str]:
    """Return every registered process, including those that died within the last minute."""
    return readable(redis.call("SMEMBERS", redis.keys.processes))


def rubys(redis: Redis) -> list[str]:
    """Return the registered processes that are no owners of private lists, and so are Ruby's."""
    owners, listed = redis.pipeline([("HKEYS", redis.keys.owners), ("SMEMBERS", redis.keys.processes)])
    return [identity for identity in readable(listed) if identity.encode() not in owners]


def prune(redis: Redis) -> int:
    """Remove identities whose hash has expired or has the wrong type, once a minute. Returns the number removed."""
    if not redis.call("SET", redis.keys.process_cleanup, "1", "NX", "EX", PRUNE_SECONDS):
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
    """Return the ``info`` JSON of each process that has one; keys of another type are skipped."""
    if not listed:
        return {}
    replies = _read(redis, [("HGET", redis.keys.process(identity), "info") for identity in listed])
    return {identity: info for identity, info in zip(listed, replies, strict=True) if info is not None}


def hashes(redis: Redis, listed: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Return the hash fields of each process.

    Omits processes without a heartbeat in the last minute, and keys of another type.
    """
    if not listed:
        return {}
    replies = _read(redis, [("HMGET", redis.keys.process(identity), *SHOWN) for identity in listed])
    read = ((identity, _fields(values)) for identity, values in zip(listed, replies, strict=True) if values)
    return {identity: fields for identity, fields in read if fields}


def leader(redis: Redis) -> str:
    """Return the identity of the leader, offsider or Sidekiq Enterprise; empty if there is none."""
    [identity] = _read(redis, [("GET", redis.keys.leader)])
    return identity.decode("utf-8", "replace") if identity else ""


def _read(redis: Redis, commands: Sequence[Command]) -> list[Any]:
    """Return the replies; None for a key of the wrong type."""
    replies = redis.pipeline(commands, raise_errors=False)
    for reply in replies:
        if isinstance(reply, OffsiderError) and getattr(reply, "code", "") != "WRONGTYPE":
            raise reply
    return [None if isinstance(reply, OffsiderError) else reply for reply in replies]


def _signatures(raw: bytes | None) -> Mapping[str, str] | None:
    try:
        decoded: object = json.loads(raw or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    return {name: str(digest) for name, digest in cast("dict[str, object]", decoded).items()}


def _fields(values: Sequence[bytes | None]) -> dict[str, bytes]:
    return {field: value for field, value in zip(SHOWN, values, strict=True) if value is not None}


def work(redis: Redis, listed: Sequence[str]) -> list[tuple[str, str, bytes]]:
    """Return identity, thread id and JSON of each running job, from the last heartbeats."""
    keys = redis.keys
    # Sidekiq 6 uses another key.
    pairs = [(identity, key) for identity in listed for key in (keys.work(identity), keys.workers(identity))]
    replies = redis.pipeline([("HGETALL", key) for _, key in pairs], raise_errors=False) if pairs else []
    return [
        (identity, tid.decode("utf-8", "replace"), job)
        for (identity, _), reply in zip(pairs, replies, strict=True)
        if isinstance(reply, list)
        for tid, job in zip(cast("list[bytes]", reply)[::2], cast("list[bytes]", reply)[1::2], strict=True)
    ]
