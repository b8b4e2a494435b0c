"""What each process reads once a second: the version of the controls, the paused queues, and a signal.

The version changes with each control that an operator sets (`changed`), so a process reads the controls themselves only
then. Replies to claims carry it as well. Ruby's ``SADD paused`` changes no version, so the paused queues are read each
time.
"""

from __future__ import annotations

from typing import NamedTuple

from offsider.storage.keys import Keys
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

READ_CONTROLS = Script("read_controls")


class ControlsReply(NamedTuple):
    """The reply to `read`.

    Attributes:
        version: of the controls; empty before the first one. Compare it only for equality.
        paused: the paused queues.
        has_held: whether any job is held.
        signal: a signal for this process, which is removed from the server: ``TSTP``, ``TERM`` or ``TTIN``.
    """

    version: bytes
    paused: frozenset[str]
    has_held: bool
    signal: str | None


def read(redis: Redis, identity: str) -> ControlsReply:
    """Read the version and the paused queues, and take a signal of the process with this identity."""
    keys = redis.keys
    own = [keys.controls_version, keys.paused, keys.signals(identity), keys.groups_due]
    version, paused, signal, held = redis.run(READ_CONTROLS, own, [])
    return ControlsReply(version or b"", frozenset(readable(paused)), bool(held), signal.decode() if signal else None)


def changed(keys: Keys) -> Command:
    """Return the command that changes the version; run it in one step with the change of a control."""
    return ("INCR", keys.controls_version)
