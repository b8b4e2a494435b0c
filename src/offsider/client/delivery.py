"""The commands of one batch, and the handling of their replies. No I/O: both clients share it.

The reply of LPUSH (or ZADD) alone decides: an error raised after the job was stored would make users push twice, so a
refused SADD is only logged. A command that the server refused because its role is changing is sent once more. After a
lost connection the result is unknown, and nothing is sent again.

A script stores the jobs of the push guard, and jobs with effects. The reply of the guard's script lists the jobs that
it refused.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from offsider.client.prepared import Prepared, PreparedAlike
from offsider.config.push_guard import PushGuard
from offsider.core.errors import ConfigurationError, NotReplicated, OffsiderError, RedisRefused
from offsider.logs.structured import about_payload
from offsider.storage.effects import EffectCalls, joined
from offsider.storage.keys import Keys
from offsider.storage.queues import push_commands, schedule_commands, store_call, wait_command
from offsider.storage.redis_errors import REROUTE
from offsider.storage.scripts import Call, Command
from offsider.storage.working import BATCH

logger = logging.getLogger("offsider")

WAIT_TIMEOUT_MS = 1000  # well below the socket timeout, so that a missing replica does not look like a lost connection


class _Part(NamedTuple):
    """The jobs of one queue, or all scheduled jobs. The last command stores them.

    Attributes:
        last: the last job.
        jobs: the jobs, if a script stores them.
        call: the script call.
    """

    commands: list[Command]
    last: Prepared
    jobs: Sequence[Prepared] = ()
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
        #: The jids of the jobs that the push guard refused.
        self.stopped: Collection[str] = ()
        # Additional commands, sent once; their replies do not affect the jobs.
        self.commands = [*self._flatten(), *also] if also else self._flatten()

    def take(self, replies: Sequence[Any]) -> None:
        """Process the replies to ``commands``; afterwards ``commands`` contains those to send again.

        Raises:
            RedisRefused: the server refused jobs; QueueFull if it is out of memory.
            NotReplicated: the jobs are stored, but on fewer replicas than requested.
        """
        refused: list[_Part] = []
        start = 0
        for part in self._unsent:
            end = start + len(part.commands)
            if part.call is not None and _is_unknown(replies[end - 1]):
                script, names, arguments = part.call
                refused.append(_Part([script.by_text(names, arguments)], part.last, part.jobs))
            elif self._is_refused(replies[start:end], part):
                refused.append(part)
            elif part.jobs:
                self._stored_by_script(part.jobs, replies[end - 1])
            start = end
        self._may_repeat = False
        if not refused and self._wait_replicas:
            self._check_replicas(replies[start])
        self._unsent = refused
        self.commands = self._flatten() if refused else []

    def _flatten(self) -> list[Command]:
        commands = [command for part in self._unsent for command in part.commands]
        if commands and self._wait_replicas:
            commands.append(wait_command(self._wait_replicas, WAIT_TIMEOUT_MS))
        return commands

    def _is_refused(self, replies: Sequence[Any], part: _Part) -> bool:
        result = replies[-1]
        if isinstance(result, OffsiderError):
            if self._may_repeat and isinstance(result, RedisRefused) and result.code in REROUTE:
                return True
            raise result
        for reply in replies[:-1]:
            if isinstance(reply, OffsiderError):
                logger.error(
                    "the job is stored, but its queue could not be added to the set of queues: %s",
                    reply,
                    extra={"fields": {"jid": part.last.jid}},
                )
        return False

    def _stored_by_script(self, jobs: Sequence[Prepared], reply: Any) -> None:
        places = read_reply(jobs, reply, self._guard)
        if places:
            self.stopped = {*self.stopped, *(jobs[place].jid for place in places)}

    def _check_replicas(self, reply: Any) -> None:
        reached = 0 if isinstance(reply, OffsiderError) else int(reply)
        if reached < self._wait_replicas:
            raise NotReplicated(self._unsent[-1].last.jid, wanted=self._wait_replicas, reached=reached)


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"


def _parts(keys: Keys, jobs: Sequence[Prepared], guard: PushGuard | None) -> list[_Part]:
    if len(jobs) == 1:  # most pushes
        return [_part_of(keys, jobs, guard)]
    if isinstance(jobs, PreparedAlike) and not jobs.effects:
        return [_Part(push_commands(keys, jobs.queue, jobs.raws), jobs[-1])]
    groups: dict[tuple[str | None, bool, bool], list[Prepared]] = {}
    for job in jobs:
        groups.setdefault((job.queue if job.at is None else None, job.guarded, job.by_script), []).append(job)
    parts: list[_Part] = []
    for (_, _, by_script), group in groups.items():
        size = BATCH if by_script else len(group)
        parts += [_part_of(keys, group[start : start + size], guard) for start in range(0, len(group), size)]
    return parts


def _part_of(keys: Keys, jobs: Sequence[Prepared], guard: PushGuard | None) -> _Part:
    """Build the part for jobs of one queue, or for scheduled jobs, which are all stored in the same way."""
    first = jobs[0]
    if first.by_script:
        script, names, arguments = call = storing_call(keys, jobs, guard)
        return _Part([script.by_hash(names, arguments)], jobs[-1], jobs, call)
    if first.at is None:
        commands = push_commands(keys, first.queue, [job.raw for job in jobs])
    else:
        commands = schedule_commands(keys, [(job.at or 0.0, job.raw) for job in jobs])
    return _Part(commands, jobs[-1])


def storing_call(keys: Keys, jobs: Sequence[Prepared], guard: PushGuard | None) -> Call:
    """Return the script call that stores jobs of the push guard, or jobs with effects, and runs the effects.

    All jobs are for one queue, or scheduled.

    Raises:
        ConfigurationError: the jobs are of a push guard, and the configuration has none.
    """
    if not jobs[0].guarded:
        call = store_call(keys, [(job.raw, job.at) for job in jobs], jobs[0].queue)
    elif guard is None:
        raise ConfigurationError(
            "this job was prepared by the extension Unique, which is not installed: call config.use(Unique())"
        )
    else:
        call = guard.call(keys, jobs)
    return joined(*call, _effects(jobs)) if any(job.effects for job in jobs) else call


def _effects(jobs: Sequence[Prepared]) -> EffectCalls:
    return EffectCalls([job.effects for job in jobs], [job.jid for job in jobs])


def read_reply(jobs: Sequence[Prepared], reply: Any, guard: PushGuard | None) -> Sequence[int]:
    """Return the indexes of the jobs that the push guard refused, and log failed effects of the others."""
    if not any(job.effects for job in jobs):
        return _refused(jobs, reply, guard)
    reply, replies = reply
    refused = _refused(jobs, reply, guard)
    if any(isinstance(told, bytes) for told in replies):
        for place, (job, of_job) in enumerate(zip(jobs, _effects(jobs).by_job(replies), strict=True)):
            for effect, told in zip(job.effects, of_job, strict=True):
                if isinstance(told, bytes) and place not in refused:
                    message = "the job is stored, but a follow-up write of its push failed: %s: %s"
                    fields = about_payload(job.payload, job.queue)
                    logger.error(message, effect.script.name, told.decode(errors="replace"), extra={"fields": fields})
    return refused


def _refused(jobs: Sequence[Prepared], reply: Any, guard: PushGuard | None) -> Sequence[int]:
    return guard.refused(jobs, reply) if jobs[0].guarded and guard is not None else ()
