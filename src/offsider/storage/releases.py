"""The releases that processes run, each with the time at which one last did: a new one is a deploy.

A release that comes back after all its processes had ended, while another one ran, is a deploy too. A deploy is an
event and, unless ``offsider mark`` has just recorded it, a mark of Sidekiq's charts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from offsider.storage import events, execution_metrics
from offsider.storage.hashes import scores, text
from offsider.storage.redis import Redis
from offsider.storage.scripts import run_together

MAX_RELEASES = 100
#: A release without a beat for this time has ended.
ENDED_SECONDS = 60.0
#: A mark that an operator recorded within this time is that of a new release.
MARKED = timedelta(minutes=10)


def note(redis: Redis, release: str, identity: str, now: float, *, first: bool) -> bool:
    """Record that a process runs a release.

    Args:
        identity: the process.
        now: epoch seconds.
        first: whether the process has just started; only then a deploy is reported.

    Returns:
        Whether this is a deploy, for one process of it.
    """
    key = redis.keys.releases
    seen, latest, *_ = run_together(
        redis,
        ("ZSCORE", key, release),
        ("ZREVRANGE", key, 0, 0, "WITHSCORES"),
        ("ZADD", key, "GT", now, release),
        ("ZREMRANGEBYRANK", key, 0, -MAX_RELEASES - 1),
    )
    other = next((text(name) for name, _ in scores(latest) if text(name) != release), "")
    is_back = seen is not None and bool(other) and now - float(seen) > ENDED_SECONDS
    if not first or not (seen is None or is_back):
        return False
    events.note(redis, events.DEPLOY, release, process=identity, before=other)
    at = datetime.fromtimestamp(now, UTC)
    if not execution_metrics.marks(redis, at - MARKED, at):
        execution_metrics.mark(redis, release, at)
    return True


def mark(redis: Redis, label: str, at: datetime) -> bool:
    """Store the deploy mark of an operator, in place of the one that a new release has left in this minute.

    Returns False if the label was stored within the last minute, or the minute has another mark of an operator.
    """
    for known in execution_metrics.marks(redis, at, at):
        if known.label != label and redis.call("ZSCORE", redis.keys.releases, known.label) is not None:
            execution_metrics.unmark(redis, at)
    return execution_metrics.mark(redis, label, at)
