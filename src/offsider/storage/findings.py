"""The findings of the last examination as JSON, who has muted which until when, and what alerts have reported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from offsider.storage import hashes
from offsider.storage.hashes import json_object, number_field, text_field
from offsider.storage.redis import Redis

#: Without a worker that refreshes them, nobody needs the last ones for longer.
KEEP_SECONDS = 3_600
MAX_MUTED = 1_000
#: A finding that is this old and was not reported since is reported again.
KEEP_POSTED_SECONDS = 7 * 86_400


def write(redis: Redis, found: str) -> None:
    """Store the findings."""
    redis.call("SET", redis.keys.findings, found, "EX", KEEP_SECONDS)


def read(redis: Redis) -> bytes | None:
    """Return the findings; None without any."""
    stored: bytes | None = redis.call("GET", redis.keys.findings)
    return stored


def mute(redis: Redis, finding: str, until: float, who: str) -> None:
    """Mute a finding until a time in epoch seconds."""
    redis.call("HSET", redis.keys.muted_findings, finding, json.dumps({"until": until, "who": who}))


def unmute(redis: Redis, finding: str) -> bool:
    """End it. False if the finding is not muted."""
    return bool(redis.call("HDEL", redis.keys.muted_findings, finding))


def muted(redis: Redis, now: float) -> dict[str, tuple[float, str]]:
    """Return the muted findings by id: until when, and by whom. Deletes those whose time is over."""
    found: dict[str, tuple[float, str]] = {}
    over: list[bytes] = []
    for name, stored in hashes.pairs(redis.call("HGETALL", redis.keys.muted_findings)):
        fields = json_object(stored)
        until = number_field(fields.get("until"))
        if until <= now or len(found) >= MAX_MUTED:
            over.append(name)
        else:
            found[hashes.text(name)] = until, text_field(fields.get("who"))
    if over:
        redis.call("HDEL", redis.keys.muted_findings, *over)
    return found


def posted(redis: Redis) -> dict[str, dict[str, Any]]:
    """Return what alerts have reported, by finding."""
    stored = hashes.pairs(redis.call("HGETALL", redis.keys.posted_findings))
    return {hashes.text(name): json_object(fields) for name, fields in stored}


def note_posted(redis: Redis, reported: Mapping[str, str]) -> None:
    """Store what alerts have reported, by finding, as JSON."""
    key = redis.keys.posted_findings
    pairs = [part for pair in reported.items() for part in pair]
    redis.pipeline([("HSET", key, *pairs), ("EXPIRE", key, KEEP_POSTED_SECONDS)])


def forget_posted(redis: Redis, names: Sequence[str]) -> None:
    """Forget what was reported about findings."""
    if names:
        redis.call("HDEL", redis.keys.posted_findings, *names)
