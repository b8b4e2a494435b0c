"""The commands of one batch and what their replies mean. No I/O: both clients share it.

The reply of LPUSH (or ZADD) alone decides: an error raised after the job was stored would make users push
twice, so a refused SADD is only logged. A command that the server refused to execute because its role is
about to change is sent once more; after a lost connection nobody knows, and nothing is sent again.

Jobs of the push guard are stored by its script, whose reply says which of them it has refused.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from offsider.client.prepared import Prepared
from offsider.core.errors import NotReplicated, OffsiderError, RedisRefused
from offsider.storage.failures import REROUTE
from offsider.storage.keys import Keys
from offsider.storage.queues import push_commands, schedule_commands, wait_command
from offsider.storage.scripts import Call, Command
from offsider.storage.working import BATCH
from offsider.wiring.push_guard import PushGuard

logger = logging.getLogger("offsider")

WAIT_TIMEOUT_MS = 1000  # well below the socket timeout, so that a missing replica is no lost connection


class _Part(NamedTuple):
    """The jobs of one queue, or those for later: stored by one command, the last of these.

    Attributes:
        guarded: the jobs, when the push guard's script stores them.
        call: that script.
    """

    commands: list[Command]
    last_jid: str
    guarded: Sequence[Prepared] = ()
    call: Call | None = None


class Delivery:
    """Stores one batch: ``while delivery.commands: delivery.take(pipeline(delivery.commands))``."""

    def __init__(
        self,
        keys: Keys,
        jobs: Sequence[Prepared],
        wait_replicas: int = 0,
        *,
        guard: PushGuard | None = None,
        also: Sequence[Command] = (),
    ) -> None:
        self._guard = guard
        self._unsent = _parts(keys, jobs, guard)
        self._wait_replicas = wait_replicas
        self._may_repeat = True
        #: The jids of the jobs that the push guard has refused.
        self.stopped: Collection[str] = ()
        # What is sent along, once: whether it succeeds says nothing of the jobs.
        self.commands = [*self._flatten(), *also] if also else self._flatten()

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
            if part.call is not None and _is_unknown(replies[end - 1]):
                script, names, arguments = part.call
                refused.append(_Part([script.by_text(names, arguments)], part.last_jid, part.guarded))
            elif self._is_refused(replies[start:end]):
                refused.append(part)
            elif part.guarded:
                self._note_stopped(part.guarded, replies[end - 1])
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

    def _note_stopped(self, jobs: Sequence[Prepared], reply: Any) -> None:
        assert self._guard is not None  # noqa: S101  # it has made the part
        places = self._guard.refused(jobs, reply)
        if places:
            self.stopped = {*self.stopped, *(jobs[place].jid for place in places)}

    def _check_replicas(self, reply: Any) -> None:
        reached = 0 if isinstance(reply, OffsiderError) else int(reply)
        if reached < self._wait_replicas:
            raise NotReplicated(self._unsent[-1].last_jid, wanted=self._wait_replicas, reached=reached)


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"


def _parts(keys: Keys, jobs: Sequence[Prepared], guard: PushGuard | None) -> list[_Part]:
    if len(jobs) == 1:  # most pushes
        return [_part_of(keys, jobs, guard)]
    groups: dict[tuple[str | None, bool], list[Prepared]] = {}
    for job in jobs:
        groups.setdefault((job.queue if job.at is None else None, job.guarded), []).append(job)
    parts: list[_Part] = []
    for (_, guarded), group in groups.items():
        size = BATCH if guarded else len(group)
        parts += [_part_of(keys, group[start : start + size], guard) for start in range(0, len(group), size)]
    return parts


def _part_of(keys: Keys, jobs: Sequence[Prepared], guard: PushGuard | None) -> _Part:
    """The part for jobs that are all for later, or all for one queue, and all guarded or none."""
    first = jobs[0]
    if first.guarded and guard is not None:
        call = guard.call(keys, jobs)
        return _Part([call[0].by_hash(call[1], call[2])], jobs[-1].jid, jobs, call)
    if first.at is None:
        commands = push_commands(keys, first.queue, [job.raw for job in jobs])
    else:
        commands = schedule_commands(keys, [(job.at or 0.0, job.raw) for job in jobs])
    return _Part(commands, jobs[-1].jid)
