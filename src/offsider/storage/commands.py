"""Runs commands as one step, also on a full server, which refuses plain writes and transactions."""

from __future__ import annotations

from typing import Any

from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

COMMANDS = Script("commands")


def run_together(redis: Redis, *commands: Command) -> list[Any]:
    """Run commands in one script, and return their replies. The second word of each is its key.

    Raises:
        RedisFailure: a command failed; those before it were executed.
    """
    arguments: list[Argument] = []
    for name, _, *rest in commands:
        arguments += (name, len(rest), *rest)
    replies: list[Any] = redis.run(COMMANDS, [str(key) for _, key, *_ in commands], arguments)
    return replies
