"""The control table: one hash of all controls, by subject.

A change also changes the version of the controls, which each process reads once a second. The pause of a queue is a
member of Sidekiq's set ``paused``, which Ruby reads and writes; the table adds who paused it, when and why. Times are
by the server's clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple, cast

from offsider.core.controls import ACTIONS, QUEUE, Control
from offsider.storage import clocks, controls, events, hashes
from offsider.storage.keys import Keys
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script, run_together

FORGET_CONTROL = Script("forget_control")

_MAX_SECONDS = 1e9


class ControlSnapshot(NamedTuple):
    """A snapshot of all controls.

    Attributes:
        on: the controls in force, by subject.
        over: subject -> stored value of each control that has ended: it expired, or Ruby resumed its queue.
        now: time of the snapshot in epoch seconds, by the server's clock; 0 if there are none.
    """

    on: Mapping[str, Control]
    over: Mapping[str, bytes]
    now: float


def put(redis: Redis, control: Control, *, seconds: float | None = None) -> Control:
    """Set or replace the control of a subject, and reset its count.

    Args:
        seconds: until it expires; None for no expiry.

    Returns:
        The control with its times.
    """
    now, _ = clocks.look(redis)
    control = replace(control, since=now, until=None if seconds is None else now + seconds)
    keys = redis.keys
    run_together(
        redis,
        ("HSET", keys.controls, control.subject, _stored(control)),
        ("HDEL", keys.controls_acted, control.subject),
        *_pausing(redis, control.subject, pause=control.action == "hold"),
        *controls.changed(keys),
        _set_event(keys, control),
    )
    return control


def adopt(redis: Redis, control: Control) -> bool:
    """Record when a queue was first seen paused that another client has paused. False if it is recorded already."""
    now, _ = clocks.look(redis)
    seen = _stored(replace(control, since=now))
    if not redis.call("HSETNX", redis.keys.controls, control.subject, seen):
        return False
    return events.note_command(redis, _set_event(redis.keys, control))


def clear(redis: Redis, subject: str, *, by: str = "") -> bool:
    """Delete the control of a subject. Returns False if there is none.

    Args:
        by: who ends it, for the event log.
    """
    keys = redis.keys
    replies = run_together(
        redis,
        ("HDEL", keys.controls_acted, subject),
        ("HDEL", keys.controls, subject),
        *_pausing(redis, subject, pause=False),
        *controls.changed(keys),
    )
    if not any(replies[1:-2]):
        return False
    events.note(redis, events.CONTROL_REMOVED, subject, by)
    return True


def _stored(control: Control) -> str:
    return json.dumps(asdict(control), ensure_ascii=True, separators=(",", ":"))


def _set_event(keys: Keys, control: Control) -> Command:
    fields = {"action": control.action, "jobs": control.described, "reason": control.reason}
    return events.command(keys, events.CONTROL_SET, control.subject, control.by, **fields, until=control.until)


def _pausing(redis: Redis, subject: str, *, pause: bool) -> list[Command]:
    if not subject.startswith(QUEUE):
        return []
    return [("SADD" if pause else "SREM", redis.keys.paused, subject.removeprefix(QUEUE))]


def forget(redis: Redis, subject: str, stored: bytes) -> bool:
    """Delete a control that has ended, unless it was replaced, or its queue paused again, after it was read."""
    keys = redis.keys
    control, (now, _) = _read(subject, stored), clocks.look(redis)
    has_expired = control is not None and control.until is not None and control.until <= now
    queue = subject.removeprefix(QUEUE) if subject.startswith(QUEUE) else ""
    own = [keys.controls, keys.controls_acted, keys.paused]
    if not redis.run(FORGET_CONTROL, own, [subject, stored, queue, int(has_expired)]):
        return False
    events.note(redis, events.CONTROL_ENDED if has_expired else events.CONTROL_REMOVED, subject)
    return True


def read(redis: Redis) -> ControlSnapshot:
    """Read all controls. Unreadable entries are ignored. A queue that Ruby paused has a control without an author."""
    keys = redis.keys
    stored, paused = redis.pipeline([("HGETALL", keys.controls), ("SMEMBERS", keys.paused)])
    now = clocks.look(redis)[0] if stored else 0.0
    on: dict[str, Control] = {f"{QUEUE}{queue}": Control(f"{QUEUE}{queue}", "hold") for queue in readable(paused)}
    over: dict[str, bytes] = {}
    for field, value in hashes.pairs(stored):
        control = _read(hashes.text(field), value)
        if control is None:
            continue
        resumed = control.action == "hold" and control.subject.startswith(QUEUE) and control.subject not in on
        if resumed or (control.until is not None and control.until <= now):
            over[control.subject] = value
            on.pop(control.subject, None)
        else:
            on[control.subject] = control
    return ControlSnapshot(on, over, now)


def count(redis: Redis, acted: Mapping[str, int]) -> None:
    """Add to the number of jobs held, deferred or dropped, per subject."""
    redis.pipeline([("HINCRBY", redis.keys.controls_acted, subject, number) for subject, number in acted.items()])


def counts(redis: Redis) -> dict[str, int]:
    """Return the number of jobs deferred or dropped, per subject."""
    return hashes.wholes(redis.call("HGETALL", redis.keys.controls_acted))


def _read(subject: str, stored: bytes) -> Control | None:
    try:
        return _parse(subject, cast("dict[str, Any]", json.loads(stored)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parse(subject: str, fields: Mapping[str, Any]) -> Control:
    action, until = fields["action"], fields.get("until")
    if action not in ACTIONS:
        raise ValueError(action)
    return Control(
        subject=subject,
        action=action,
        limit=max(1, int(fields.get("limit", 0))) if action == "limit" else 0,
        # A script would reject a longer delay when it defers the job.
        delay_seconds=min(max(0.0, float(fields.get("delay_seconds", 0))), _MAX_SECONDS),
        keep=bool(fields.get("keep", True)),
        since=float(fields["since"]),
        until=None if until is None else float(until),
        by=str(fields.get("by", "")),
        reason=str(fields.get("reason", "")),
    )
