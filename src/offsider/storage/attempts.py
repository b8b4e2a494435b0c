"""The last failed attempts of a job: the payload itself stores only the latest error.

Attempts are deleted when the job succeeds, when an operator deletes it, and by expiry. Trimming the dead set deletes
none, so the number of jobs is limited too: those that failed longest ago are deleted first.

The log lines of an attempt take more memory than all else, so only those of the last attempts are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

MAX_ATTEMPTS = 10
#: Attempts with log lines, and characters of all lines of one attempt.
MAX_LOGS, MAX_LOG_CHARACTERS = 3, 2_000
#: Approximate maximum number of jobs with attempts.
MAX_JOBS = 10_000


class LogLine(NamedTuple):
    """A line that a job wrote to the log.

    Attributes:
        at: in epoch seconds.
        level: name of its level.
        message: truncated if long.
    """

    at: float
    level: str
    message: str


class NewAttempt(NamedTuple):
    """An attempt to store.

    Attributes:
        jid: id of its job.
        at: end of the run in epoch seconds.
        raw: JSON.
        keep_seconds: expiry.
        lines: the log lines of the run, earliest first.
    """

    jid: str
    at: float
    raw: bytes
    keep_seconds: float
    lines: Sequence[LogLine] = ()


def add(redis: Redis, attempts: Iterable[NewAttempt], now: float) -> None:
    """Store attempts.

    Args:
        now: epoch seconds.
    """
    every, commands = redis.keys.every_attempts, list[Command]()
    for attempt in attempts:
        added = [(redis.keys.attempts(attempt.jid), attempt.raw, MAX_ATTEMPTS)]
        if attempt.lines:
            log = json.dumps([attempt.at, _newest(attempt.lines)])
            added.append((redis.keys.attempts_log(attempt.jid), log.encode(), MAX_LOGS))
        life_seconds = max(1, int(attempt.keep_seconds))
        for key, raw, most in added:
            commands += [("LPUSH", key, raw), ("LTRIM", key, 0, most - 1), ("EXPIRE", key, life_seconds)]
        commands.append(("ZADD", every, now, attempt.jid))
    if not commands:
        return
    *_, jobs = redis.pipeline([*commands, ("ZCARD", every)])
    if jobs > MAX_JOBS:
        oldest = redis.call("ZPOPMIN", every, jobs - MAX_JOBS)[::2]
        redis.call("UNLINK", *_keys(redis, [jid.decode("utf-8", "replace") for jid in oldest]))


def read(redis: Redis, jid: str) -> tuple[list[bytes], dict[float, list[LogLine]]]:
    """Return the attempts of a job, newest first, and the log lines of the last ones by the end of their run."""
    keys = redis.keys
    stored, logs = redis.pipeline(
        [("LRANGE", keys.attempts(jid), 0, MAX_ATTEMPTS - 1), ("LRANGE", keys.attempts_log(jid), 0, MAX_LOGS - 1)]
    )
    found: dict[float, list[LogLine]] = {}
    for raw in logs:
        with suppress(ValueError, TypeError, RecursionError):  # written by another program
            at, lines = cast("tuple[float, list[tuple[float, str, str]]]", json.loads(raw))
            found[at] = [LogLine(float(when), str(level), str(message)) for when, level, message in lines]
    return stored, found


def forget(redis: Redis, jids: Sequence[str]) -> None:
    """Delete the attempts of jobs."""
    if jids:
        redis.pipeline([("UNLINK", *_keys(redis, jids)), ("ZREM", redis.keys.every_attempts, *jids)])


def _keys(redis: Redis, jids: Sequence[str]) -> list[str]:
    return [key for jid in jids for key in (redis.keys.attempts(jid), redis.keys.attempts_log(jid))]


def _newest(lines: Sequence[LogLine]) -> list[LogLine]:
    """Return the last lines that fit."""
    left, kept = MAX_LOG_CHARACTERS, list[LogLine]()
    for line in reversed(lines):
        left -= len(line.message)
        if left < 0:
            break
        kept.insert(0, line)
    return kept
