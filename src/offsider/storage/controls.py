"""What each process reads once a second, with one command: the paused queues and the version of the controls.

The version is the only member of a set, so that SUNION returns it together with Sidekiq's set of paused queues. It
changes with each control that an operator sets and with each signal (`changed`), so a process reads those only then.
Replies to claims carry it as well. Ruby's ``SADD paused`` changes no version, so the paused queues are read each time.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from offsider.storage.keys import Keys
from offsider.storage.queues import readable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: A version starts with this, a name of a queue does not.
_START = b"\n"


class ControlsReply(NamedTuple):
    """The reply to `read`.

    Attributes:
        version: of the controls; empty before the first one. Compare it only for equality.
        paused: the paused queues.
    """

    version: bytes
    paused: frozenset[str]


def read(redis: Redis) -> ControlsReply:
    """Read the version and the paused queues."""
    members: list[bytes] = redis.call("SUNION", redis.keys.controls_version, redis.keys.paused)
    version = next((member for member in members if member.startswith(_START)), b"")
    return ControlsReply(version, frozenset(readable([member for member in members if member != version])))


def changed(keys: Keys) -> tuple[Command, Command]:
    """Return the commands that change the version; run them in one step with the change of a control."""
    version = _START + secrets.token_hex(8).encode()
    return ("UNLINK", keys.controls_version), ("SADD", keys.controls_version, version)
