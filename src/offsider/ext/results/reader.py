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
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offsider.config import test_mode
from offsider.core.errors import JobFailed, NoResult, RedisUnavailable, ResultTimeout
from offsider.core.once import first_time
from offsider.ext.results import store
from offsider.ext.results.subscriber import Subscriber
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import RetrySet, ScheduledSet, SetEntry
from offsider.inspector.queue import Queue
from offsider.inspector.work import WorkSet
from offsider.logs.structured import about_here
from offsider.runtime.context import current_job_or_none
from offsider.storage import owners

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import JobInfo, State
    from offsider.ext.results.store import Stored

logger = logging.getLogger("offsider")

#: Pause before the state is read again, after the server did not answer.
OUTAGE_SECONDS = 1.0
#: Minimum time that a waiter of an event loop has for its first read of the state.
MIN_READ_SECONDS = 1.0
#: A cancelled job that is tracked is searched for this long in the retry set, and among so many jobs at each end of
#: each queue: it does not begin anyway.
SEARCH_MS = 50.0
SEARCHED_JOBS = 1_000


class Reader:
    """The states and results of the jobs of one server. Thread-safe. In a test mode they are in memory.

    Args:
        server: the server.
    """

    def __init__(self, server: Installation) -> None:
        self._server = server

    @classmethod
    def of(cls, server: Installation) -> Reader:
        """Return the reader that this process shares for a server."""
        return server.shared.get(cls, lambda: cls(server))

    def info(self, jid: str) -> JobInfo:
        """See `JobId.info`."""
        return self._due(self.read(jid).info)

    async def ainfo(self, jid: str) -> JobInfo:
        """See `JobId.ainfo`."""
        return self._due((await self._aread(jid)).info)

    def result(self, jid: str, timeout: float | None) -> Any:
        """See `JobId.result`."""
        stored = self.read(jid)
        if _waits(stored, timeout):
            _warn_of_deadlock(jid)
            stored = self._wait(jid, stored, timeout)
        return _result(jid, stored, timeout)

    async def aresult(self, jid: str, timeout: float | None) -> Any:  # noqa: ASYNC109 - see `JobId.aresult`
        """See `JobId.aresult`."""
        # Many waiters of an event loop share few connections: each may wait for one as long as for its result.
        stored = await self._aread(jid, None if timeout is None else max(timeout, MIN_READ_SECONDS))
        if _waits(stored, timeout):
            _warn_of_deadlock(jid)
            stored = await self._await(jid, stored, timeout)
        return _result(jid, stored, timeout)

    def cancel(self, jid: str, *, hard: bool) -> bool:
        """See `JobId.cancel`."""
        if test_mode.current() is not None:
            return False
        redis = self._server.redis
        cancel = store.cancel_call(redis.keys, jid, hard=hard, now=self._server.config.clock.now())
        before = store.cancelled(redis.run(*cancel))
        if before is not None:
            state, due_at, ended = before
            if not ended:  # it is stopped, or will not begin
                _remove_tracked(self._server, jid, state, due_at)
            return not ended
        # Once more: it may have begun, or gone back to its queue or its set, during the search.
        return any(_ask(self._server, jid, hard=hard) or _remove_untracked(self._server, jid) for _ in range(2))

    async def acancel(self, jid: str, *, hard: bool) -> bool:
        """See `JobId.acancel`. In a thread, because the inspector searches for the job."""
        return await asyncio.to_thread(self.cancel, jid, hard=hard)

    def _wait(self, jid: str, stored: Stored, timeout: float | None) -> Stored:
        news = threading.Event()

        def wake(_: bytes | None) -> None:
            news.set()

        ends = None if timeout is None else time.monotonic() + timeout
        channel, subscriber = store.job_key(self._server.redis.keys, jid), Subscriber.of(self._server)
        subscriber.watch(channel, wake)
        try:
            again = None
            while _waits(stored, None):
                left = _shorter(None if ends is None else ends - time.monotonic(), again)
                news.wait(None if left is None else max(0.0, left))
                news.clear()
                try:
                    stored, again = self.read(jid), None
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
        channel, subscriber = store.job_key(self._server.redis.keys, jid), Subscriber.of(self._server)
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

    def read(self, jid: str) -> Stored:
        """Return the state of a job with its result. A job whose worker was killed is queued."""
        if test_mode.current() is not None:
            return store.in_memory(jid)
        redis = self._server.redis
        stored = store.read(redis, jid)
        is_lost = stored.info.state == "running" and redis.call("EXISTS", *self._alive_keys(stored.info.process)) == 0
        return _without_worker(stored) if is_lost else stored

    async def _aread(self, jid: str, within_seconds: float | None = None) -> Stored:
        if test_mode.current() is not None:
            return store.in_memory(jid)
        redis = self._server.async_redis
        (reply,) = await redis.pipeline([store.read_command(redis.keys, jid)], seconds=within_seconds)
        stored = store.parsed(jid, reply)
        if stored.info.state != "running":
            return stored
        (alive,) = await redis.pipeline([("EXISTS", *self._alive_keys(stored.info.process))], seconds=within_seconds)
        return stored if alive else _without_worker(stored)

    def _alive_keys(self, process: str) -> list[str]:
        """The keys of a process of which at least one exists while it lives: of the reliable and the basic fetcher."""
        keys = self._server.redis.keys
        return [keys.alive(process), keys.process(process)]

    def _due(self, info: JobInfo) -> JobInfo:
        """Return a scheduled job whose time has come as queued: the scheduler moves it without a write to its state."""
        is_due = info.state == "scheduled" and (info.due_at or 0.0) <= self._server.config.clock.now()
        return replace(info, state="queued") if is_due else info


def _without_worker(stored: Stored) -> Stored:
    """Return a running job whose worker was killed as queued: another worker will run it, unless it was cancelled."""
    state: State = "cancelled" if stored.cancel else "queued"
    return replace(stored, info=replace(stored.info, state=state), ended=stored.cancel)


def _shorter(left: float | None, again: float | None) -> float | None:
    return min((each for each in (left, again) if each is not None), default=None)


def _waits(stored: Stored, timeout: float | None) -> bool:
    is_waiting = not stored.ended and stored.info.state != "untracked"
    return is_waiting and timeout != 0 and test_mode.current() is None


def _result(jid: str, stored: Stored, timeout: float | None) -> Any:
    info = stored.info
    if not stored.ended and info.state != "untracked" and test_mode.current() is not None:
        raise NoResult(f"job {jid} ({info.name}) has not run: in fake mode, drain() runs it")
    if info.state == "untracked":
        raise NoResult(
            f"job {jid} is not tracked, or its state has expired: declare the job with keep_result=SECONDS, and "
            "install Results() in the process that pushes it and in its workers. It has no state yet if its push waits "
            "for a commit or in the outbox"
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


def _remove_tracked(server: Installation, jid: str, state: str, due_at: float | None) -> None:
    """Delete a cancelled job that waits, if it is found without a long search. Otherwise its run is skipped."""
    entries: list[SetEntry] = []
    if state == "scheduled" and due_at is not None:
        entries = ScheduledSet(server).fetch(due_at, jid)
    elif state == "retrying":
        entries = RetrySet(server).scan(JobFilter(text=jid), budget_ms=SEARCH_MS, most=1).entries
    if any(entry.delete() for entry in entries if entry.jid == jid) or state == "running":
        return
    # The job of a set may be in its queue by now.
    for queue in Queue.all(server):
        for newest_first in (False, True):
            page = queue.page(0, SEARCHED_JOBS, newest_first=newest_first)
            if any(record.jid == jid and queue.delete(record) for record in _naming(page, jid)):
                return
            if len(page) < SEARCHED_JOBS:
                break


def _remove_untracked(server: Installation, jid: str) -> bool:
    """Delete a job that waits anywhere. True if it was found."""
    for kind in (ScheduledSet, RetrySet):
        entry = kind(server).find_job(jid)
        if entry is not None and entry.delete():
            return True
    # The job of a set may be in its queue by now.
    for queue in Queue.all(server):
        record = queue.find_job(jid)
        if record is not None and queue.delete(record):
            return True
    return False


def _ask(server: Installation, jid: str, *, hard: bool) -> bool:
    """Ask all processes to stop an untracked job. True if a live one had claimed it."""
    redis = server.redis
    registered = owners.registered(redis)
    alive = redis.pipeline([("EXISTS", redis.keys.alive(lists.identity)) for lists in registered])
    keys = [key for lists, is_alive in zip(registered, alive, strict=True) if is_alive for key in lists.keys(redis)]
    is_reported = WorkSet(server).find_work(jid) is not None  # of a fetcher without private lists
    # In one step: the job may end as soon as its process is asked.
    request = store.cancel_request(redis.keys, jid, hard=hard)
    *found, _ = redis.pipeline([("MULTI",), *(("LRANGE", key, 0, -1) for key in keys), request, ("EXEC",)])[-1]
    claimed = [JobRecord(raw) for raws in found for raw in raws]
    return is_reported or any(record.jid == jid for record in _naming(claimed, jid))


def _naming(records: Iterable[JobRecord], jid: str) -> Iterator[JobRecord]:
    """Yield the records that contain a jid; others need not be decoded."""
    name = jid.encode()
    return (record for record in records if name in record.raw)
