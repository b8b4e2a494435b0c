"""Stores the pushes of an event loop in groups: what waits while a request runs is the next request.

A coroutine that finds no request running stores its push itself. Those that push until the reply wait, and one task
stores all that wait in one round trip.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple

from offsider.client.delivery import Outcome, only_outcome
from offsider.config.hooks import Prepared
from offsider.core.errors import RedisUnavailable

#: A group has at most this many pushes, and no more after these bytes: a round trip has the time limit of one push.
MAX_JOBS = 1_000
MAX_BYTES = 256_000


class _Waiter(NamedTuple):
    """A coroutine that waits until its push is stored.

    Attributes:
        jobs: the jobs of its push.
        since: the start of its wait, in monotonic seconds.
        future: gets the jids that the push guard refused; done if the coroutine was cancelled.
    """

    jobs: Sequence[Prepared]
    since: float
    future: asyncio.Future[Collection[str]]


class GroupCommit:
    """The pushes of the running event loop to one server, by one client.

    Args:
        send: stores groups of jobs in one round trip; returns the outcome of each.
        limit_seconds: returns the duration that a push may take.
        not_sent: returns the error of a push that waited too long.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Sequence[Prepared]]], Awaitable[Sequence[Outcome]]],
        limit_seconds: Callable[[], float],
        not_sent: Callable[[], Exception],
    ) -> None:
        self._request = send
        self._limit_seconds = limit_seconds
        self._not_sent = not_sent
        #: The pushes that wait, while a request runs. Weak: only coroutines keep what refers to their loop, so that
        #: nothing outlives a loop that was dropped.
        self._waiting: weakref.ref[deque[_Waiter]] | None = None
        self._has_failed = False

    async def store(self, jobs: Sequence[Prepared]) -> Collection[str]:
        """Store the jobs of a push; returns the jids of those that the push guard refused.

        If the caller is cancelled before its push or group is sent, it is not stored.

        Raises:
            RedisUnavailable, RedisRefused: as for `Client.store_prepared`. During an outage a push that has waited as
                long as it may take is not sent, and not ``ambiguous``.
        """
        others = None if self._waiting is None else self._waiting()
        if others is not None:
            waiter = _Waiter(jobs, time.monotonic(), asyncio.get_running_loop().create_future())
            others.append(waiter)
            return await waiter.future
        waiting: deque[_Waiter] = deque()
        self._waiting = weakref.ref(waiting)
        try:
            return only_outcome(await self._send([jobs]))
        finally:
            self._go_on(waiting)

    def _go_on(self, waiting: deque[_Waiter]) -> None:
        """Let a task store what waits."""
        loop = waiting[0].future.get_loop() if waiting else None
        if loop is not None and loop.is_running():  # not at the end of a loop, whose coroutines are closed
            loop.create_task(self._store_waiting(waiting))
        else:
            self._waiting = None

    async def _store_waiting(self, waiting: deque[_Waiter]) -> None:
        taken: Sequence[_Waiter] = ()
        try:
            while taken := self._take(waiting):
                outcomes = await self._store_group(taken)
                for waiter, outcome in zip(taken, outcomes, strict=True):
                    _resolve(waiter.future, outcome)
        except asyncio.CancelledError:  # with all other tasks of the loop
            for waiter in (*taken, *waiting):
                waiter.future.cancel()
            raise
        finally:
            self._waiting = None

    def _take(self, waiting: deque[_Waiter]) -> list[_Waiter]:
        """Return the pushes of the next round trip. That of a bulk push is its own."""
        taken: list[_Waiter] = []
        size_bytes = 0
        late_since = time.monotonic() - self._limit_seconds() if self._has_failed else 0.0
        while waiting and len(taken) < MAX_JOBS and size_bytes < MAX_BYTES:
            is_bulk = len(waiting[0].jobs) > 1
            if is_bulk and taken:
                break
            waiter = waiting.popleft()
            if waiter.future.done():
                continue
            if waiter.since < late_since:
                waiter.future.set_exception(self._not_sent())
                continue
            taken.append(waiter)
            size_bytes += MAX_BYTES if is_bulk else len(waiter.jobs[0].raw)
        return taken

    async def _store_group(self, waiters: Sequence[_Waiter]) -> Sequence[Outcome]:
        """Store pushes in one round trip; return the outcome of each."""
        if len(waiters) == 1:
            return await self._send([waiters[0].jobs])
        groups: dict[object, list[Prepared]] = {}
        keys: list[object] = []
        for place, waiter in enumerate(waiters):
            job = waiter.jobs[0]
            # The jobs of a group are stored by one command: all, or none.
            keys.append(place if job.by_script else (job.queue, job.at is None))
            groups.setdefault(keys[-1], []).append(job)
        outcomes = dict(zip(groups, await self._send([*groups.values()]), strict=True))
        return [outcomes[key] for key in keys]

    async def _send(self, groups: Sequence[Sequence[Prepared]]) -> Sequence[Outcome]:
        """Store groups of jobs in one round trip; return the outcome of each."""
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._request(groups)
        except Exception as error:  # noqa: BLE001 - raised where each caller waits
            outcomes = [error] * len(groups)
        self._has_failed = any(isinstance(outcome, RedisUnavailable) for outcome in outcomes)
        return outcomes


class GroupCommits:
    """One `GroupCommit` for each event loop and each server: none waits for another one that does not reply.

    Args:
        make: makes one for the server of this name.
    """

    def __init__(self, make: Callable[[str], GroupCommit]) -> None:
        self._make = make
        self._of_loops = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, GroupCommit]]()

    def of(self, server: str) -> GroupCommit:
        """Return that of the running loop."""
        loop = asyncio.get_running_loop()
        commits = self._of_loops.get(loop)
        if commits is None:
            commits = self._of_loops[loop] = {}
        return commits.get(server) or commits.setdefault(server, self._make(server))


def _resolve(future: asyncio.Future[Collection[str]], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(_own(outcome))
    else:
        future.set_result(outcome)


def _own(error: Exception) -> Exception:
    """Return a copy, for one of several callers: each adds its own traceback and context."""
    try:
        made = type(error).__new__(type(error), *error.args)
        made.__dict__.update(error.__dict__)
    except Exception:  # noqa: BLE001 - of a strange class
        made = None
    if made is None or isinstance(made, StopIteration):  # which no future accepts
        made = RuntimeError(f"the push failed: {error!r}")
    made.__cause__ = error
    return made
