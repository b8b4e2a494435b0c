"""Sidekiq's registry of processes. Web pages, Sidekiq's and ours, list it and send signals through it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from offsider.core.errors import OffsiderError
from offsider.storage import activity, controls
from offsider.storage.activity import Activity, encode
from offsider.storage.hashes import pairs, text
from offsider.storage.keys import Keys
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script, run_together

HEARTBEAT = Script("heartbeat")

PRUNE_SECONDS = 60
#: Processes without a heartbeat expire after this time.
EXPIRY_SECONDS = 60
#: Start of a signal that cancels the run of a job, before its id. Ruby's processes raise an error at it.
CANCEL = "CANCEL "
#: Field of the process hash: JSON of the jobs that the process can run, name -> digest of the signature.
JOBS = "jobs"
#: The other fields that offsider reads.
SHOWN = ("info", "concurrency", "busy", "beat", "quiet", "rtt_us", "rss", activity.FIELD)


def write(
    redis: Redis,
    identity: str,
    fields: Mapping[str, Argument],
    begun: Mapping[str, str],
    reported: Activity,
    *,
    ended: Sequence[str] | None = None,
    queues: Sequence[str] = (),
    is_beat: bool = True,
    wire_version: int,
) -> bool:
    """Write the process and its running jobs, in one script; returns whether the process was registered before.

    Args:
        fields: of the process hash: busy; at a heartbeat info, concurrency, beat, rtt_us, quiet, rss, and jobs if they
            are new.
        begun: thread id -> JSON of queue, payload and run_at of each running job to add.
        reported: jobs per second and running jobs.
        ended: thread ids whose job to remove; None for all.
        queues: names to add to the set of queues.
        is_beat: register the process for a minute. Without, write nothing if it is not registered.
    """
    keys = redis.keys
    flat = [item for pair in fields.items() for item in pair]
    jobs = [item for pair in begun.items() for item in pair]
    sizes = [len(flat), len(queues), -1 if ended is None else len(ended)]
    known = redis.run(
        HEARTBEAT,
        [keys.processes, keys.process(identity), work_key(keys, identity, wire_version), keys.queues],
        [identity, EXPIRY_SECONDS, int(is_beat), encode(reported), *sizes, *flat, *queues, *(ended or ()), *jobs],
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
            ("UNLINK", keys.process(identity), keys.work(identity), keys.workers(identity)),
        ]
    )


def published_jobs(redis: Redis, identities: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the jobs that each process can run: name -> digest of the signature. Ruby's processes publish none."""
    if not identities:
        return {}
    replies = _read(redis, [("HGET", redis.keys.process(identity), JOBS) for identity in identities])
    decoded = {identity: _signatures(raw) for identity, raw in zip(identities, replies, strict=True)}
    return {identity: signatures for identity, signatures in decoded.items() if signatures is not None}


def send_signal(redis: Redis, identity: str, signal: str) -> None:
    """Leave a signal (``TSTP`` quiet, ``TERM`` stop, ``TTIN`` dump, `CANCEL` and a jid) for a process."""
    key = redis.keys.signals(identity)
    run_together(redis, ("LPUSH", key, signal), ("EXPIRE", key, EXPIRY_SECONDS), *controls.changed(redis.keys))


def take_signal(redis: Redis, identity: str) -> str | None:
    """Remove and return the oldest signal for a process."""
    signal: bytes | None = redis.call("RPOP", redis.keys.signals(identity))
    return None if signal is None else signal.decode("utf-8", "replace")


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
    known = hashes(redis, listed)
    gone = [identity for identity in listed if "info" not in known.get(identity, {})]
    if gone:
        redis.call("SREM", redis.keys.processes, *gone)
    return len(gone)


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
    stored = [(identity, key) for identity in listed for key in (keys.work(identity), keys.workers(identity))]
    replies = redis.pipeline([("HGETALL", key) for _, key in stored], raise_errors=False) if stored else []
    return [
        (identity, text(tid), job)
        for (identity, _), reply in zip(stored, replies, strict=True)
        for tid, job in pairs(reply)
    ]
