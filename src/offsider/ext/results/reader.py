"""Reads states and results, waits for results, and cancels jobs: the implementation of the methods of `JobId`.

To wait, a caller reads the state once. If the job has not ended, the caller watches the job's channel, and reads again
when the channel is subscribed (the job may have ended before) and when the end is published.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offsider.core.errors import JobFailed, NoResult, RedisUnavailable, ResultTimeout
from offsider.core.once import first_time
from offsider.ext.results import store
from offsider.ext.results.subscriber import Subscriber
from offsider.inspector.job_set import RetrySet, ScheduledSet
from offsider.inspector.queue import Queue
from offsider.inspector.work import WorkSet
from offsider.logs.structured import about_here
from offsider.runtime.context import current_job_or_none
from offsider.storage.redis import deadline_after

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import JobInfo, State
    from offsider.ext.results.store import Stored

logger = logging.getLogger("offsider")

#: Pause before the state is read again, after the server did not answer.
OUTAGE_SECONDS = 1.0
#: Minimum time that a waiter of an event loop has for its first read of the state.
LEAST_READ_SECONDS = 1.0


class Reader:
    """The states and results of the jobs of one server. Thread-safe.

    Args:
        here: the server.
    """

    def __init__(self, here: Installation) -> None:
        self._here = here

    @classmethod
    def of(cls, here: Installation) -> Reader:
        """Return the reader that this process shares for a server."""
        return here.shared.get(cls, lambda: cls(here))

    def info(self, jid: str) -> JobInfo:
        """See `JobId.info`."""
        return self._due(self._read(jid).info)

    async def ainfo(self, jid: str) -> JobInfo:
        """See `JobId.ainfo`."""
        return self._due((await self._aread(jid)).info)

    def result(self, jid: str, timeout: float | None) -> Any:
        """See `JobId.result`."""
        stored = self._read(jid)
        if _waits(stored, timeout):
            _warn_of_deadlock(jid)
            stored = self._wait(jid, stored, timeout)
        return _result(jid, stored, timeout)

    async def aresult(self, jid: str, timeout: float | None) -> Any:  # noqa: ASYNC109 - see `JobId.aresult`
        """See `JobId.aresult`."""
        # Many waiters of an event loop share few connections: each may wait for one as long as for its result.
        stored = await self._aread(jid, None if timeout is None else max(timeout, LEAST_READ_SECONDS))
        if _waits(stored, timeout):
            _warn_of_deadlock(jid)
            stored = await self._await(jid, stored, timeout)
        return _result(jid, stored, timeout)

    def cancel(self, jid: str, *, hard: bool) -> bool:
        """See `JobId.cancel`."""
        redis = self._here.redis
        cancel = store.cancel_call(redis.keys, jid, hard=hard, now=self._here.config.clock.now())
        reply = redis.run(*cancel)
        if reply == b"":
            return False
        state = None if reply is None else reply.decode("utf-8", "replace")
        if remove_waiting(self._here, jid, state) or state is not None:  # else it runs, or will not begin
            return True
        # An untracked job may have begun, or gone back to its queue or its set, during the search.
        redis.run(*cancel)
        return remove_waiting(self._here, jid, None) or WorkSet(self._here).find_work(jid) is not None

    async def acancel(self, jid: str, *, hard: bool) -> bool:
        """See `JobId.acancel`. In a thread: the search for the job is that of the inspector."""
        return await asyncio.to_thread(self.cancel, jid, hard=hard)

    def _wait(self, jid: str, stored: Stored, timeout: float | None) -> Stored:
        news = threading.Event()

        def wake(_: bytes | None) -> None:
            news.set()

        ends = None if timeout is None else time.monotonic() + timeout
        channel, subscriber = store.job_key(self._here.redis.keys, jid), Subscriber.of(self._here)
        subscriber.watch(channel, wake)
        try:
            again = None
            while _waits(stored, None):
                left = _shorter(None if ends is None else ends - time.monotonic(), again)
                news.wait(None if left is None else max(0.0, left))
                news.clear()
                try:
                    stored, again = self._read(jid), None
                except RedisUnavailable:  # the subscriber reports an outage
                    again = OUTAGE_SECONDS
                if ends is not None and time.monotonic() >= ends:
                    break
        finally:
            subscriber.unwatch(channel, wake)
        return stored

    async def _await(self, jid: str, stored: Stored, timeout: float | None) -> Stored:  # noqa: ASYNC109
        news, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake(_: bytes | None) -> None:
            loop.call_soon_threadsafe(news.set)

        ends = None if timeout is None else loop.time() + timeout
        channel, subscriber = store.job_key(self._here.redis.keys, jid), Subscriber.of(self._here)
        subscriber.watch(channel, wake)
        try:
            again = None
            while _waits(stored, None):
                left = _shorter(None if ends is None else ends - loop.time(), again)
                try:
                    async with asyncio.timeout(left):
                        await news.wait()
                except TimeoutError:
                    pass
                news.clear()
                try:
                    stored, again = await self._aread(jid), None
                except RedisUnavailable:
                    again = OUTAGE_SECONDS
                if ends is not None and loop.time() >= ends:
                    break
        finally:
            subscriber.unwatch(channel, wake)
        return stored

    def _read(self, jid: str) -> Stored:
        redis = self._here.redis
        stored = store.read(redis, jid)
        is_lost = stored.info.state == "running" and redis.call("EXISTS", *self._alive_keys(stored.info.process)) == 0
        return _without_worker(stored) if is_lost else stored

    async def _aread(self, jid: str, within_seconds: float | None = None) -> Stored:
        redis = self._here.async_redis
        deadline = None if within_seconds is None else deadline_after(within_seconds)
        (reply,) = await redis.pipeline([store.read_command(redis.keys, jid)], deadline=deadline)
        stored = store.parsed(jid, reply)
        if stored.info.state != "running":
            return stored
        (alive,) = await redis.pipeline([("EXISTS", *self._alive_keys(stored.info.process))], deadline=deadline)
        return stored if alive else _without_worker(stored)

    def _alive_keys(self, process: str) -> list[str]:
        """The keys of a process of which at least one exists while it lives: of the reliable and the basic fetcher."""
        keys = self._here.redis.keys
        return [keys.alive(process), keys.process(process)]

    def _due(self, info: JobInfo) -> JobInfo:
        """Return a scheduled job whose time has come as queued: the scheduler moves it without a write to its state."""
        is_due = info.state == "scheduled" and (info.due_at or 0.0) <= self._here.config.clock.now()
        return replace(info, state="queued") if is_due else info


def _without_worker(stored: Stored) -> Stored:
    """Return a running job whose worker was killed as queued: another worker will run it, unless it was cancelled."""
    state: State = "cancelled" if stored.cancel else "queued"
    return replace(stored, info=replace(stored.info, state=state), ended=stored.cancel)


def _shorter(left: float | None, again: float | None) -> float | None:
    return min((each for each in (left, again) if each is not None), default=None)


def _waits(stored: Stored, timeout: float | None) -> bool:
    return not stored.ended and stored.info.state != "untracked" and timeout != 0


def _result(jid: str, stored: Stored, timeout: float | None) -> Any:
    info = stored.info
    if info.state == "untracked":
        raise NoResult(
            f"job {jid} is not tracked, or its state has expired: declare the job with keep_result=SECONDS, and "
            "install Results() in the process that pushes it and in its workers. It has no state yet if its push waits "
            "for a commit or in the outbox, and none in a test mode"
        )
    if not stored.ended:
        waited = "" if timeout == 0 else f" after {timeout:g} s"
        raise ResultTimeout(f"job {jid} has not finished{waited}: it is {info.state}")
    if info.state != "succeeded":
        raise JobFailed(jid, info.state, info.error_class, info.error_message)
    if stored.result is None:
        raise NoResult(
            f"job {jid} ({info.name}) has succeeded, but there is no result: "
            f"{info.without_result or 'the job does not keep it; declare the job with keep_result=SECONDS'}"
        )
    return json.loads(stored.result)


def _warn_of_deadlock(jid: str) -> None:
    job = current_job_or_none()
    if job is not None and job.process and first_time("result inside a job", job.name):
        logger.warning(
            "job %s (%s) waits for the result of job %s: if all threads of the workers wait like this, none of them is "
            "left to run the other job, and they wait forever. Use a chain or a batch (logged once per class)",
            job.jid,
            job.name,
            jid,
            extra={"fields": about_here(job)},
        )


def remove_waiting(here: Installation, jid: str, state: str | None) -> bool:
    """Delete a job that waits. True if it was found.

    Args:
        state: limits the search; None for an untracked job.
    """
    if state == "running":
        return False
    for name, kind in (("scheduled", ScheduledSet), ("retrying", RetrySet)):
        if state in (None, name):
            entry = kind(here).find_job(jid)
            if entry is not None and entry.delete():
                return True
    # The job of a set may be in its queue by now.
    for queue in Queue.all(here):
        record = queue.find_job(jid)
        if record is not None and queue.delete(record):
            return True
    return False
