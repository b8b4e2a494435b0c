"""Stores prepared jobs: the commands of groups of jobs, one round trip for all of them, and their replies.

The reply of LPUSH (or ZADD) alone decides: an error raised after the job was stored would make users push twice, so a
refused SADD is only logged. A command that the server refused because its role is changing is sent once more. After a
lost connection the result is unknown, and nothing is sent again.

A script stores the jobs of the push guard, and jobs with effects. The reply of the guard's script lists the jobs that
it refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from offsider.client.alike import PreparedAlike
from offsider.config.hooks import Prepared, PushGuard
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, NotReplicated, OffsiderError, RedisRefused, RedisUnavailable
from offsider.logs.structured import about_payload
from offsider.storage.effects import EffectCalls, joined
from offsider.storage.keys import Keys
from offsider.storage.queues import packed_push, push_commands, schedule_commands, store_call, wait_command
from offsider.storage.redis import Redis, RedisSettings, deadline_after, time_left
from offsider.storage.redis_errors import REROUTE
from offsider.storage.scripts import Call, Command
from offsider.storage.working import BATCH

logger = logging.getLogger("offsider")

WAIT_TIMEOUT_MS = 1000  # well below the socket timeout, so that a missing replica does not look like a lost connection
#: The jids of a group that the push guard refused, or the error of the group.
Outcome: TypeAlias = Collection[str] | Exception
_STORED: Sequence[Outcome] = ((),)


class Request:
    """Stores groups of jobs of one server in one round trip, and in another one those that it refused for a moment.

    Args:
        redis: the server.
        groups: at least one; each has at least one job.
        also: other commands, whose replies are ignored.
        seconds: maximum duration.
        wait_replicas: number of replicas to wait for, with one group.
        guard: the push guard, if the configuration has one.
    """

    def __init__(  # noqa: PLR0917  # arguments by name would take each push longer
        self,
        redis: Redis,
        groups: Sequence[Sequence[Prepared]],
        also: Sequence[Command],
        seconds: float,
        wait_replicas: int,
        guard: PushGuard | None,
    ) -> None:
        self._redis = redis
        self._groups = groups
        self._also = also
        self._seconds = seconds
        self._wait_replicas = wait_replicas
        self._guard = guard
        self._deadline = 0.0
        self._is_cancelled = False
        self._check: Callable[[], None] | None = None
        #: The packed commands of a single push, as most are; empty for others.
        self._packed = b""
        if len(groups) == 1 and len(groups[0]) == 1 and not also and not wait_replicas and not redis.is_cluster:
            job = groups[0][0]
            if job.at is None and not job.guarded and not job.effects:
                self._packed = packed_push(redis.keys, job.queue, job.raw)

    def send(self) -> Sequence[Outcome]:
        """Send it, and return the outcome of each group.

        Raises:
            RedisUnavailable: the server could not be reached; ``ambiguous`` if it may have stored jobs.
        """
        deadline = self._deadline = self._deadline or deadline_after(self._seconds)
        self._redis.check_server(deadline)
        if not self._packed:
            return self._deliver()
        replies = self._redis.exchange_packed(self._packed, 2, deadline, self._check)
        return _STORED if _are_numbers(replies) else self._deliver(replies)

    async def asend(self, server: Installation) -> Sequence[Outcome]:
        """As `send`, by the running event loop; in a thread of the server if the loop might have to wait."""
        self._deadline = deadline_after(self._seconds)
        packed = self._packed
        commands = [] if packed else _commands(self._deliveries)
        if not packed and not commands:
            return _outcomes(self._deliveries)  # the push guard failed
        commands += self._also
        number = 2 if packed else len(commands)
        try:
            replies = None  # a thread waits for replicas
            if not self._wait_replicas:
                replies = await self._redis.exchange_on_loop(packed or commands, number, self._seconds)
        except OffsiderError as error:
            return self._failed(error)
        if replies is None:
            return await self._in_thread(server, self.send)
        if packed and _are_numbers(replies):
            return _STORED
        _take(self._deliveries, replies)
        if _commands(self._deliveries):
            self._also = ()
            return await self._in_thread(server, self._deliver)
        return _outcomes(self._deliveries)

    async def _in_thread(self, server: Installation, call: Callable[[], Sequence[Outcome]]) -> Sequence[Outcome]:
        self._check = self._check_cancelled
        try:
            left = time_left(self._deadline)
            return await server.loop_threads.run(call, left, lambda: not_sent(self._redis.settings))
        except asyncio.CancelledError:
            self._is_cancelled = True
            raise

    def _check_cancelled(self) -> None:
        if self._is_cancelled:
            raise asyncio.CancelledError

    @cached_property
    def _deliveries(self) -> Sequence[Delivery]:
        """One for each group."""
        return [Delivery(self._redis.keys, jobs, self._wait_replicas, guard=self._guard) for jobs in self._groups]

    def _deliver(self, replies: Sequence[Any] = ()) -> Sequence[Outcome]:
        """Store what is left of the deliveries.

        Args:
            replies: those to the first commands, if they were sent already.
        """
        also, deliveries = self._also, self._deliveries
        while commands := _commands(deliveries):
            try:
                replies = replies or self._redis.pipeline(
                    [*commands, *also], raise_errors=False, deadline=self._deadline, check=self._check
                )
            except OffsiderError as error:
                return self._failed(error)
            _take(deliveries, replies)
            replies, also = (), ()
        return _outcomes(deliveries)

    def _failed(self, error: OffsiderError) -> Sequence[Outcome]:
        for delivery in self._deliveries:
            delivery.error = error if delivery.commands else delivery.error
        return _outcomes(self._deliveries)


def _are_numbers(replies: Sequence[Any]) -> bool:
    """Whether a single push is stored, and its queue is in the set of queues."""
    return type(replies[0]) is type(replies[1]) is int


def not_sent(server: RedisSettings) -> RedisUnavailable:
    """Return the error of a push that waited as long as it may for those before it."""
    message = f"{server.redacted_url} did not reply to the pushes before this one, which was not sent"
    return RedisUnavailable(message, ambiguous=False)


def only_outcome(outcomes: Sequence[Outcome]) -> Collection[str]:
    """Return the outcome of the only group, or raise its error."""
    (outcome,) = outcomes
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _commands(deliveries: Sequence[Delivery]) -> list[Command]:
    return [command for delivery in deliveries for command in delivery.commands]


def _take(deliveries: Sequence[Delivery], replies: Sequence[Any]) -> None:
    start = 0
    for delivery in deliveries:
        end = start + len(delivery.commands)
        if end > start:
            delivery.take(replies[start:end])
        start = end


def _outcomes(deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
    return [delivery.stopped if delivery.error is None else delivery.error for delivery in deliveries]


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
    ) -> None:
        self._guard = guard
        self._unsent: Sequence[_Part] = ()
        self._wait_replicas = wait_replicas
        self._may_repeat = True
        #: The jids of the jobs that the push guard refused.
        self.stopped: Collection[str] = ()
        #: RedisRefused: the server refused jobs (QueueFull if it is out of memory); NotReplicated: they are stored, but
        #: on fewer replicas than requested; ConfigurationError and errors of the push guard.
        self.error: Exception | None = None
        try:
            self._unsent = _parts(keys, jobs, guard)
        except Exception as error:  # noqa: BLE001 - other deliveries of the same round trip go on
            self.error = error
        self.commands = self._flatten()

    def take(self, replies: Sequence[Any]) -> None:
        """Process the replies to ``commands``; afterwards ``commands`` contains those to send again."""
        try:
            self._take(replies)
        except Exception as error:  # noqa: BLE001 - as above
            self.error, self.commands = error, []

    def _take(self, replies: Sequence[Any]) -> None:
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
    if any(isinstance(reply, bytes) for reply in replies):
        for place, (job, of_job) in enumerate(zip(jobs, _effects(jobs).by_job(replies), strict=True)):
            for effect, error in zip(job.effects, of_job, strict=True):
                if isinstance(error, bytes) and place not in refused:
                    message = "the job is stored, but a follow-up write of its push failed: %s: %s"
                    fields = about_payload(job.payload, job.queue)
                    logger.error(message, effect.script.name, error.decode(errors="replace"), extra={"fields": fields})
    return refused


def _refused(jobs: Sequence[Prepared], reply: Any, guard: PushGuard | None) -> Sequence[int]:
    return guard.refused(jobs, reply) if jobs[0].guarded and guard is not None else ()
