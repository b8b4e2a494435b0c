"""The commands of one batch and what their replies mean. No I/O: both clients share it.

The reply of LPUSH (or ZADD) alone decides: an error raised after the job was stored would make users push
twice, so a refused SADD is only logged. A command that the server refused to execute because its role is
about to change is sent once more; after a lost connection nobody knows, and nothing is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from offsider.client.prepared import Prepared
from offsider.core.errors import NotReplicated, OffsiderError, RedisRefused
from offsider.storage.failures import REROUTE
from offsider.storage.keys import Keys
from offsider.storage.queues import push_commands, schedule_commands, wait_command
from offsider.storage.scripts import Command

logger = logging.getLogger("offsider")

WAIT_TIMEOUT_MS = 1000  # well below the socket timeout, so that a missing replica is no lost connection


@dataclass(frozen=True, slots=True)
class _Part:
    """The jobs of one queue, or those for later: stored by one command, the last of these."""

    commands: list[Command]
    last_jid: str


class Delivery:
    """Stores one batch: ``while delivery.commands: delivery.take(pipeline(delivery.commands))``."""

    def __init__(self, keys: Keys, jobs: Sequence[Prepared], wait_replicas: int = 0) -> None:
        self._unsent = _parts(keys, jobs)
        self._wait_replicas = wait_replicas
        self._may_repeat = True
        self.commands = self._flatten()

    def take(self, replies: Sequence[Any]) -> None:
        """Read the replies to ``commands``; afterwards ``commands`` is what is to be sent again.

        Raises:
            RedisRefused: the server refused jobs for good; QueueFull when it has no memory.
            NotReplicated: the jobs are stored, on fewer replicas than wanted.
        """
        refused: list[_Part] = []
        start = 0
        for part in self._unsent:
            end = start + len(part.commands)
            if self._is_refused(replies[start:end]):
                refused.append(part)
            start = end
        self._may_repeat = False
        if not refused and self._wait_replicas:
            self._check_replicas(replies[start])
        self._unsent = refused
        self.commands = self._flatten()

    def _flatten(self) -> list[Command]:
        commands = [command for part in self._unsent for command in part.commands]
        if commands and self._wait_replicas:
            commands.append(wait_command(self._wait_replicas, WAIT_TIMEOUT_MS))
        return commands

    def _is_refused(self, replies: Sequence[Any]) -> bool:
        result = replies[-1]
        if isinstance(result, OffsiderError):
            if self._may_repeat and isinstance(result, RedisRefused) and result.code in REROUTE:
                return True
            raise result
        for reply in replies[:-1]:
            if isinstance(reply, OffsiderError):
                logger.error("the job is stored, but its queue's name is not: %s", reply)
        return False

    def _check_replicas(self, reply: Any) -> None:
        reached = 0 if isinstance(reply, OffsiderError) else int(reply)
        if reached < self._wait_replicas:
            raise NotReplicated(self._unsent[-1].last_jid, wanted=self._wait_replicas, reached=reached)


def _parts(keys: Keys, jobs: Sequence[Prepared]) -> list[_Part]:
    if len(jobs) == 1:  # most pushes
        return [_part_of(keys, jobs)]
    groups: dict[str | None, list[Prepared]] = {}
    for job in jobs:
        groups.setdefault(job.queue if job.at is None else None, []).append(job)
    return [_part_of(keys, group) for group in groups.values()]


def _part_of(keys: Keys, jobs: Sequence[Prepared]) -> _Part:
    """The part for jobs that are all for later, or all for one queue."""
    first = jobs[0]
    if first.at is None:
        commands = push_commands(keys, first.queue, [job.raw for job in jobs])
    else:
        commands = schedule_commands(keys, [(job.at or 0.0, job.raw) for job in jobs])
    return _Part(commands, jobs[-1].jid)
