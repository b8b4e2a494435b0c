"""Iterations: jobs that continue, after a stop or a failure, at the element where they were.

1. A run reads the cursor of the element to begin with.
2. Before each element the run ends if its worker stops, its soft limit is reached, or the job was cancelled. The script
   that stores the outcome stores the cursor too.
3. The cursor is stored, and a cancellation read, every ``worker.flush_seconds``. A killed run repeats the elements
   since.
4. Outside of a worker, in tests for example, an iteration begins at the first element, and nothing is stored.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar, overload

from offsider.core.arguments import encode_result
from offsider.core.errors import Fenced, InvalidArguments, InvalidJob, RedisUnavailable, RunInterrupted, Skip
from offsider.jobs.clients import client_for
from offsider.runtime.context import JobContext, current_job
from offsider.runtime.outage import Outage
from offsider.storage import iteration
from offsider.storage.iteration import IterationState

#: Maximum size of a cursor as JSON.
MAX_CURSOR_BYTES = 65_536
T = TypeVar("T")
_Pairs = Callable[[Any], Iterable[tuple[T, Any]] | AsyncIterable[tuple[T, Any]]]


class Resumable(Generic[T]):
    """The elements of an iteration; see `resumable`. Iterate over it once, with ``for`` or ``async for``.

    Attributes:
        executions: number of runs that iterated, with this one; 0 before the first element.
    """

    def __init__(self, pairs: _Pairs[T]) -> None:
        self._pairs = pairs
        self._run = _Run()

    @property
    def executions(self) -> int:
        return self._run.state.executions

    @property
    def cursor(self) -> Any:
        """The cursor of the current element; None before the first one of the first run."""
        return self._run.cursor

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled."""
        return self._run.is_cancelled

    def __iter__(self) -> Iterator[T]:
        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - documented; the other function raises
            raise InvalidJob("resumable: use `async for` in a coroutine, because `for` would block its event loop")
        run = self._run
        run.begin(current_job())
        if run.state.has_ended:
            return
        pairs = self._pairs(run.cursor)
        if not isinstance(pairs, Iterable):
            raise InvalidJob(f"resumable: use `async for` to iterate over {type(pairs).__name__}")
        try:
            for pair in pairs:
                if run.reached(pair):
                    run.store()
                    run.end_if_asked()
                run.passes()
                yield pair[0]
        finally:
            run.leave()
        run.ended()

    async def __aiter__(self) -> AsyncIterator[T]:
        run, threads = self._run, client_for().installation.loop_threads
        await threads.run(partial(run.begin, current_job()))
        if run.state.has_ended:
            return
        try:
            async with aclosing(_on_loop(self._pairs(run.cursor))) as pairs:
                async for pair in pairs:
                    if run.reached(pair):
                        await threads.run(run.store)
                        run.end_if_asked()
                    run.passes()
                    yield pair[0]
        finally:
            run.leave()
        run.ended()


@overload
def resumable(source: Iterable[T]) -> Resumable[T]: ...
@overload
def resumable(
    source: Callable[[Any], Iterable[T] | AsyncIterable[T]], *, cursor: Callable[[T], Any]
) -> Resumable[T]: ...
def resumable(source: Any, *, cursor: Callable[[Any], Any] | None = None) -> Resumable[Any]:
    """Return elements whose iteration continues in another run of the job, after a stop, a deploy, or a failure.

    ::

        @job
        def reindex(tenant: int) -> None:
            for user in resumable(lambda start: users_of(tenant, from_id=start), cursor=lambda user: user.id):
                index(user)

    The run ends before the next element if the worker stops, the soft limit is reached or the job was cancelled.
    Such an interruption is no failure. A job that fails is retried from the element that failed. A killed run repeats
    the elements of the last ``worker.flush_seconds``. A job has one iteration.

    Args:
        source: a function that returns the elements from a cursor on, its element included; the cursor is None in the
            first run. Or an iterable with the same elements in each run, such as a list or the rows of a file: its
            cursor is the position.
        cursor: returns the cursor of an element: a value that JSON can store, an id for example.

    Raises:
        InvalidJob: the job has another iteration, or it needs ``async for``.
        InvalidArguments: JSON cannot store a cursor.
        NoCurrentJob: no job is running here.
    """
    if cursor is not None:
        return Resumable(partial(_with_cursors, source, cursor))
    if not hasattr(source, "__iter__"):
        raise InvalidJob("resumable: pass cursor=, a function that returns the cursor of an element")
    return Resumable(partial(_with_positions, source))


def _with_positions(elements: Iterable[T], start: Any) -> Iterable[tuple[T, int]]:
    if start is not None and type(start) is not int:
        raise InvalidArguments(f"resumable: the stored cursor is {start!r:.50}, and not the position of an element")
    first = start or 0
    return ((element, place) for place, element in enumerate(islice(elements, first, None), first))


def _with_cursors(
    source: Callable[[Any], Iterable[T] | AsyncIterable[T]], cursor: Callable[[T], Any], start: Any
) -> Iterable[tuple[T, Any]] | AsyncIterable[tuple[T, Any]]:
    elements = source(start)
    if isinstance(elements, AsyncIterable):
        return ((element, cursor(element)) async for element in elements)
    return ((element, cursor(element)) for element in elements)


async def _on_loop(pairs: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    if isinstance(pairs, AsyncIterable):
        async for pair in pairs:
            yield pair
    else:
        for pair in pairs:
            yield pair


class _Run:
    """The iteration of one run."""

    def __init__(self) -> None:
        self.state = IterationState()
        self.cursor: Any = None
        self.is_cancelled = self._is_fenced = self._has_passed = False
        self._text = "null"

    def begin(self, job: JobContext) -> None:
        if job.iterates is not None:
            raise InvalidJob(f"{job.name}: resumable is used twice, but a job has one cursor; enqueue a job for each")
        job.iterates = True
        self._job, self._began, self._flush_at = job, time.monotonic(), math.inf
        if job.process:
            client = client_for()
            config = client.installation.config
            self._redis, self._flush_seconds = client.redis, config.worker.flush_seconds
            self._outage = Outage("storing cursors of iterations", config)
            self._encryption = config.encryption if job.payload.get("encrypt") else None
            self._flush_at = self._began + self._flush_seconds
            try:
                self.state = iteration.read(self._redis, job.jid) or self.state
            except RedisUnavailable as error:
                raise RunInterrupted("the server cannot be reached") from error
            self.cursor, self._text = _decoded(self.state.cursor, job), self.state.cursor or "null"
            if self._encryption is not None and self.cursor is not None:
                self.cursor = self._encryption.open_value(self.cursor, {"jid": job.jid}, "cursor")
            self._life_seconds = config.worker.dead_timeout_seconds
            job.effects += (iteration.keeping(self._redis.keys, job.jid, job.process, self._now, self._life),)
            if self.state.is_cancelled:
                self.is_cancelled = True
                raise Skip("cancelled")
        self.state = replace(self.state, executions=self.state.executions + 1)
        if self.state.has_ended:
            job.iterates = False

    def reached(self, pair: Any) -> bool:
        """Note the next element and its cursor; return whether to store it now."""
        try:
            _, cursor = pair
        except (TypeError, ValueError):
            got = type(pair).__name__
            raise InvalidJob(
                f"{self._job.name}: build_enumerator must yield pairs (element, cursor), got {got}"
            ) from None
        self._text = _encoded(cursor)
        self.cursor, job = cursor, self._job
        return job.stopping or self._yields() or job.cancelled or time.monotonic() >= self._flush_at

    def _yields(self) -> bool:
        """Whether the soft limit ends the run: not before its first element, or it could come back for ever."""
        return self._job.must_yield and self._has_passed

    def store(self) -> None:
        """Store the cursor, and read whether the job was cancelled. If that fails, the iteration goes on."""
        with self._outage:
            try:
                self.is_cancelled = iteration.keep(self._redis, self._job.jid, self._job.process, self._now())
            except Fenced:
                self._is_fenced = True
        self._flush_at = time.monotonic() + self._flush_seconds

    def end_if_asked(self) -> None:
        job = self._job
        if self.is_cancelled or job.cancelled:
            self.is_cancelled = True
            raise Skip("cancelled")
        if self._is_fenced or job.stopping or self._yields():
            raise RunInterrupted

    def passes(self) -> None:
        """Note that the job gets the element."""
        self._has_passed = True

    def leave(self) -> None:
        """From here on, after a ``break`` too, the soft limit is that of any job."""
        self._job.iterates = False

    def ended(self) -> None:
        self.state = replace(self.state, has_ended=True)
        if self._job.must_yield:
            raise RunInterrupted

    def _life(self) -> float:
        return self._life_seconds + self._job.again_in_seconds

    def _now(self) -> IterationState:
        seconds = self.state.runtime_seconds + time.monotonic() - self._began
        text = self._text
        if self._encryption is not None and self.cursor is not None:
            text = _encoded(self._encryption.seal_value(self.cursor, {"jid": self._job.jid}, "cursor"))
        return replace(self.state, cursor=text, runtime_seconds=round(seconds, 3))


def _encoded(cursor: Any) -> str:
    try:
        return encode_result(cursor, MAX_CURSOR_BYTES, "the limit of a cursor").decode()
    except ValueError as error:
        raise InvalidArguments(f"resumable: JSON cannot store the cursor of an element: {error}") from error


def _decoded(cursor: str, job: JobContext) -> Any:
    try:
        return json.loads(cursor or "null")
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"{job.name}: the stored cursor is not JSON; to iterate from the first element, delete the key it-{job.jid}"
        ) from error
