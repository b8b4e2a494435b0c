"""The event log: what happened to the fleet and who did what, in one stream of up to about 10,000 events.

Processes that start, end or die, deploys, pauses and controls, actions of operators, faults. No event is written while
a job is pushed, claimed, run or acknowledged. A text is cut at `MAX_CHARACTERS`; arguments of jobs are never stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.errors import RedisFailure
from offsider.storage.hashes import text, texts
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command

MAX_EVENTS = 10_000
MAX_CHARACTERS = 500
#: Events that a step of `newest_first` reads.
_STEP = 1_000

#: Kinds of events. A process: its identity is the subject, and ``jobs`` the number of jobs that it held.
STARTED, ENDED, DIED, QUIET = "process-started", "process-ended", "process-died", "process-quiet"
#: The first process of a release, or ``offsider mark``.
DEPLOY = "deploy"
#: A control was set, removed or ended; its subject, also ``queue=NAME`` for a paused queue.
CONTROL_SET, CONTROL_REMOVED, CONTROL_ENDED = "control-set", "control-removed", "control-ended"
PERIODIC_PAUSED, PERIODIC_RESUMED = "periodic-paused", "periodic-resumed"
PERIODIC_MISSED, PERIODIC_ORPHANED = "periodic-missed", "periodic-orphaned"
POISON_PILL = "poison-pill"
ERROR_NEW, ERROR_RETURNED = "error-new", "error-returned"
RECONNECTED = "reconnected"
FINDING_NEW, FINDING_ENDED = "finding-new", "finding-ended"
#: An action of an operator in the web UI or the terminal that has no kind of its own, or that was refused or failed.
ACTION = "action"
KINDS = (
    STARTED, ENDED, DIED, QUIET, DEPLOY, CONTROL_SET, CONTROL_REMOVED, CONTROL_ENDED, PERIODIC_PAUSED, PERIODIC_RESUMED,
    PERIODIC_MISSED, PERIODIC_ORPHANED, POISON_PILL, ERROR_NEW, ERROR_RETURNED, RECONNECTED, FINDING_NEW, FINDING_ENDED,
    ACTION,
)  # fmt: skip


def command(keys: Keys, kind: str, subject: str = "", who: str = "", **fields: Argument | None) -> Command:
    """Return the command of `note`, for a transaction with the change that the event reports."""
    given = {"kind": kind, "subject": subject, "who": who, **fields}
    flat = [part for name, value in given.items() if value not in ("", None) for part in (name, _cut(value))]
    return ("XADD", keys.events, "MAXLEN", "~", MAX_EVENTS, "*", *flat)


def note(redis: Redis, kind: str, subject: str = "", who: str = "", **fields: Argument | None) -> bool:
    """Append an event. False if the server is unavailable or full: what happened must not fail because of its record.

    Args:
        kind: one of the kinds above.
        subject: what it is about: a process, class, queue, job or release.
        who: the operator; empty if no operator did it.
        fields: numbers and short texts; empty ones are left out.
    """
    return note_command(redis, command(redis.keys, kind, subject, who, **fields))


def note_command(redis: Redis, noting: Command) -> bool:
    """Run a `command`, as `note` does."""
    try:
        redis.call(*noting)
    except RedisFailure:
        return False
    return True


def count(redis: Redis) -> int:
    """Return the number of events."""
    return int(redis.call("XLEN", redis.keys.events))


def newest_first(redis: Redis, since: float | None, until: float | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield ID and fields of each event between two times in epoch seconds, the newest first.

    An ID begins with the time in milliseconds, by the server's clock.
    """
    last = "+" if until is None else str(max(0, int(until * 1000)))
    first = "-" if since is None else str(max(0, int(since * 1000)))
    while True:
        replies = redis.call("XREVRANGE", redis.keys.events, last, first, "COUNT", _STEP)
        for event, fields in replies:
            yield text(event), dict(texts(fields))
        if len(replies) < _STEP:
            return
        last = f"({text(replies[-1][0])}"


def _cut(value: Argument | None) -> Argument:
    shown = value if isinstance(value, int | float) else text(value) if isinstance(value, bytes) else str(value)
    return shown if not isinstance(shown, str) or len(shown) <= MAX_CHARACTERS else f"{shown[: MAX_CHARACTERS - 1]}…"
