"""Reads states and results, waits for results, and cancels jobs: the implementation of the methods of `JobId`.

To wait, a caller reads the state once. If the job has not ended, the caller watches the job's channel, and reads again
when the channel is subscribed (the job may have ended before) and when the end is published.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from offsider.config import test_mode
from offsider.core.errors import JobFailed, NoResult, RedisUnavailable, ResultTimeout
from offsider.core.wording import first_time
from offsider.ext.results import store
from offsider.ext.results.subscriber import Subscriber
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import RetrySet, ScheduledSet
from offsider.inspector.queue import Queue
from offsider.inspector.work import WorkSet
from offsider.logs.structured import about_running
from offsider.runtime.context import current_job_or_none
from offsider.storage import iteration, owners
from offsider.storage.places import MoveResult

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import JobInfo, State
    from offsider.ext.results.store import Stored
    from offsider.inspector.job_place import JobPlace

logger = logging.getLogger("offsider")

#: Pause before the state is read again, after the server did not answer.
OUTAGE_SECONDS = 1.0
#: A cancelled job that is tracked is searched for this long: it does not begin anyway.
SEARCH_MS = 50.0


class Reader:
    """The states and results of the jobs of one server. Thread-safe. In a test mode they are in memory.

    Args:
        server: the server.
    """

    def __init__(self, server: Installation) -> None:
        self._server = server
        self._threads = server.loop_threads

    @classmethod
    def of(cls, server: Installation) -> Reader:
        """Return the reader that this process shares for a server."""
        return server.shared.get(cls, lambda: cls(server))

    def info(self, jid: str) -> JobInfo:
        """See `JobId.info`."""
        return self._due(self.read(jid).info)

    async def ainfo(self, jid: str) -> JobInfo:
        """See `JobId.ainfo`."""
        return await self._threads.run(partial(self.info, jid))

    def result(self, jid: str, timeout: float | None) -> Any:
        """See `JobId.result`."""
        stored = self.read(jid)
        if _waits(stored, timeout):
            _warn_of_deadlock(jid)
            stored = self._wait(jid, stored, timeout)
        return self._opened(jid, _result(jid, stored, timeout))

    async def aresult(self, jid: str, timeout: float | None) -> Any:  # noqa: ASYNC109 - see `JobId.aresult`
        """See `JobId.aresult`."""
        ends = asyncio.get_running_loop().time() + timeout if timeout is not None and timeout > 0 else None
        try:
            async with asyncio.timeout_at(ends):
                stored = await self._threads.run(partial(self.read, jid))
        except TimeoutError:
            raise ResultTimeout(
                f"the state of job {jid} was not read within {timeout:g} s: check that its Redis server replies"
            ) from None
        if _waits(stored, timeout):
            _warn_of_deadlock(jid)
            stored = await self._await(jid, stored, ends)
        return self._opened(jid, _result(jid, stored, timeout))

    def cancel(self, jid: str, *, hard: bool) -> bool:
        """See `JobId.cancel`."""
        if test_mode.current() is not None:
            return False
        before = store.cancel(self._server.redis, jid, hard=hard, now=self._server.config.clock.now())
        if before is not None:
            state, due_at, ended = before
            if state == "running" and not ended:
                iteration.cancel(self._server.redis, jid)
            if not ended and state != "running":  # its run is skipped if it is not found
                due = ScheduledSet(self._server).fetch(due_at, jid) if due_at is not None else ()
                if not any(entry.delete() for entry in due):
                    _remove(self._server, jid, SEARCH_MS)
            return not ended
        # Once more: it may have begun, or gone back to its queue or its set, during the search.
        return any(_ask(self._server, jid, hard=hard) or _remove(self._server, jid) for _ in range(2))

    async def acancel(self, jid: str, *, hard: bool) -> bool:
        """See `JobId.acancel`. In a thread, because the inspector searches for the job."""
        return await self._threads.run(partial(self.cancel, jid, hard=hard))

    def _opened(self, jid: str, result: Any) -> Any:
        """Decrypt the result of an encrypted job."""
        encryption = self._server.config.encryption
        is_sealed = encryption is not None and encryption.is_sealed(result)
        return encryption.open_value(result, {"jid": jid}, "result") if encryption and is_sealed else result

    def _wait(self, jid: str, stored: Stored, timeout: float | None) -> Stored:
        news, again = threading.Event(), None
        ends = time.monotonic() + (threading.TIMEOUT_MAX if timeout is None else timeout)
        with self._watching(jid, news.set):
            while _waits(stored, None) and (left := ends - time.monotonic()) > 0:
                news.wait(min(left, again or left))
                news.clear()
                stored, again = self._read_again(jid, stored)
        return stored

    async def _await(self, jid: str, stored: Stored, ends: float | None) -> Stored:
        news, again, loop = asyncio.Event(), None, asyncio.get_running_loop()
        with self._watching(jid, partial(loop.call_soon_threadsafe, news.set)), suppress(TimeoutError):
            async with asyncio.timeout_at(ends):
                while _waits(stored, None):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(again):
                            await news.wait()
                    news.clear()
                    stored, again = await self._threads.run(partial(self._read_again, jid, stored))
        return stored

    @contextmanager
    def _watching(self, jid: str, wake: Callable[[], object]) -> Generator[None]:
        """Call ``wake`` when the state of a job may have changed."""
        channel, subscriber = store.job_key(self._server.redis.keys, jid), Subscriber.of(self._server)

        def changed(_: bytes | None) -> None:
            wake()

        subscriber.watch(channel, changed)
        try:
            yield
        finally:
            subscriber.unwatch(channel, changed)

    def _read_again(self, jid: str, stored: Stored) -> tuple[Stored, float | None]:
        """Return the state, and the seconds after which it must be read again without news."""
        try:
            return self.read(jid), None
        except RedisUnavailable:  # the subscriber reports an outage
            return stored, OUTAGE_SECONDS

    def read(self, jid: str) -> Stored:
        """Return the state of a job with its result. A job whose worker was killed is queued."""
        if test_mode.current() is not None:
            return store.in_memory(jid)
        redis = self._server.redis
        stored = store.read(redis, jid)
        if stored.info.state != "running":
            return stored
        # At least one of these keys exists while a process lives: of the reliable and of the basic fetcher.
        process = stored.info.process
        is_alive = redis.call("EXISTS", redis.keys.alive(process), redis.keys.process(process))
        return stored if is_alive else _without_worker(stored)

    def _due(self, info: JobInfo) -> JobInfo:
        """Return a scheduled job whose time has come as queued: the scheduler moves it without a write to its state."""
        is_due = info.state == "scheduled" and (info.due_at or 0.0) <= self._server.config.clock.now()
        return replace(info, state="queued") if is_due else info


def _without_worker(stored: Stored) -> Stored:
    """Return a running job whose worker was killed as queued: another worker will run it, unless it was cancelled."""
    state: State = "cancelled" if stored.cancel else "queued"
    return replace(stored, info=replace(stored.info, state=state), ended=stored.cancel)


def _waits(stored: Stored, timeout: float | None) -> bool:
    is_waiting = not stored.ended and stored.info.state != "untracked"
    return is_waiting and (timeout is None or timeout > 0) and test_mode.current() is None


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
            extra={"fields": about_running(job)},
        )


def _remove(server: Installation, jid: str, budget_ms: float = math.inf) -> bool:
    """Delete a job that waits. True if it was found, within the time budget."""
    ends = time.monotonic() + budget_ms / 1000
    # The job of a set may be in its queue by now.
    places: Sequence[JobPlace[Any]] = (ScheduledSet(server), RetrySet(server), *Queue.all(server))
    return any(_remove_from(place, jid, (ends - time.monotonic()) * 1000) for place in places)


def _remove_from(place: JobPlace[Any], jid: str, budget_ms: float) -> bool:
    record = place.find_job(jid, budget_ms) if budget_ms > 0 else None
    return record is not None and MoveResult.DONE in place.delete_each([record])


def _ask(server: Installation, jid: str, *, hard: bool) -> bool:
    """Ask all processes to stop an untracked job. True if a live one had claimed it."""
    redis = server.redis
    claimed = (each for each in owners.claimed_with(redis, jid) if each.is_alive)
    # The second one is of a fetcher without private lists.
    found = any(JobRecord(each.raw).jid == jid for each in claimed) or WorkSet(server).find_work(jid) is not None
    redis.call(*store.cancel_request(redis.keys, jid, hard=hard))
    if found:
        iteration.cancel(redis, jid)
    return found
