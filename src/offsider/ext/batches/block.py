"""A block of pushes: collects them, and stores them with their membership when it ends.

1. Inside the block nothing is stored, unless ``autoflush`` is set. After an exception nothing is.
2. At its end, one script opens the batch for the block. Then the jobs are stored, a thousand per round trip; the script
   that stores a job also adds it to the batch. At last, a script closes the block, and pushes callbacks whose condition
   already holds.
3. A batch with an open block has no callbacks. The token of a block inside a job is the jid: a run that was killed
   leaves its block open, and the next run of the job closes it. Children that it left open are deleted then, because
   the next run creates others (`runs`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from offsider.client.alike import templates
from offsider.client.asynchronous import call_hook
from offsider.client.collecting import Collector, collecting, collector
from offsider.config import test_mode
from offsider.core.errors import BatchSpansServers, InvalidOptions
from offsider.core.payload import new_jid
from offsider.ext.batches.store import BID
from offsider.jobs.clients import Clients
from offsider.runtime.context import current_job_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsider.client.deferred import Deferred
    from offsider.client.prepared import Prepared
    from offsider.config.config import Config
    from offsider.config.installation import Installation

CHUNK = 1_000


class Opens(Protocol):
    """The part of a batch that blocks use."""

    bid: str
    config: Config
    here: Installation

    def set_parent(self, parent: Opens) -> None:
        """Make a new batch a child."""
        ...

    def open(self, token: str) -> None:
        """Create or reopen the batch for a block."""
        ...

    def close(self, token: str) -> None:
        """Close a block, or all with an empty token."""
        ...


class Block(Collector):
    """The pushes of one ``with batch.jobs():``, also ``async with``."""

    def __init__(self, batch: Opens, autoflush: int) -> None:
        self.batch = batch
        self._autoflush = autoflush
        self._outer: Block | None = None
        self._pushes: list[Deferred] = []
        self._count = 0
        self._is_open = False
        self._lock = threading.Lock()
        self._collecting: AbstractContextManager[None] | None = None
        self.token = new_jid()

    def __enter__(self) -> Self:
        outer, job = collector(), current_job_or_none()
        if isinstance(outer, Block):
            self._outer = outer
            self.batch.set_parent(outer.batch)
        if job is not None and job.jid:
            self.token = job.jid
        self._collecting = collecting(self)
        self._collecting.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._leave(kind, error, at):
            hook, store = self.batch.config.after_commit, self._storing(last=True)
            store() if hook is None else hook(store)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._leave(kind, error, at):
            hook, store = self.batch.config.after_commit, self._storing(last=True)
            await (asyncio.to_thread(store) if hook is None else call_hook(hook, store))

    def add(self, pushes: Deferred) -> bool:
        if pushes.installation.config is not self.batch.config:
            raise BatchSpansServers(
                f"batch {self.batch.bid}: a push with another Config cannot join it: push it outside of the block"
            )
        for push in templates(pushes.pushes):
            push.server = push.server or pushes.installation.server
            check_member(cast("Mapping[str, Any]", push.payload))
            check_server(self.batch.here, self.batch.bid, push.payload["class"], push.server)
            cast("dict[str, Any]", push.payload)[BID] = self.batch.bid
        with self._lock:
            self._pushes.append(pushes)
            self._count += len(pushes.pushes)
            return 0 < self._autoflush <= self._count

    def flush(self) -> None:
        hook, store = self.batch.config.after_commit, self._storing(last=False)
        store() if hook is None else hook(store)

    def open(self) -> None:
        """Open the batch for this block, after the blocks around it."""
        if self._is_open:
            return
        if self._outer is not None:
            self._outer.open()
        self.batch.open(self.token)
        self._is_open = True

    def _leave(self, *error: Any) -> bool:
        """Stop collecting; return whether the block ended without an error."""
        assert self._collecting is not None  # noqa: S101  # entered
        self._collecting.__exit__(*error)
        for pushes in self._pushes if error[0] is not None else ():
            test_mode.waiting.discard(pushes)
        return error[0] is None

    def _storing(self, *, last: bool) -> Callable[[], None]:
        with self._lock:
            pushes, self._pushes, self._count = self._pushes, [], 0
        return test_mode.bound(partial(self._store, pushes, last=last))

    def _store(self, pushes: Sequence[Deferred], *, last: bool) -> None:
        jobs: list[Prepared] = [job for each in pushes for job in each.prepare()]
        self._check(jobs)
        is_real = test_mode.current() is None
        if is_real:
            self.open()
        self._send(jobs, max((each.wait_replicas for each in pushes), default=0))
        if last and is_real:
            self.batch.close(self.token)

    def _check(self, jobs: Sequence[Prepared]) -> None:
        for job in jobs:
            check_server(self.batch.here, self.batch.bid, job.template["class"], job.server)

    def _send(self, jobs: Sequence[Prepared], replicas: int) -> None:
        client = Clients.of(self.batch.here).blocking
        for start in range(0, len(jobs), CHUNK):
            client.store_prepared(jobs[start : start + CHUNK], replicas)


def check_member(payload: Mapping[str, Any]) -> None:
    """Raise InvalidOptions for a job without retries."""
    if payload.get("retry") is False:
        raise InvalidOptions(
            f"{payload['class']}: a job of a batch needs retries, because a failed run without them is lost silently: "
            "set retry, or push it outside of the batch"
        )


def check_server(here: Installation, bid: str, name: str, server: str) -> None:
    """Raise BatchSpansServers if a job is for another server than its batch."""
    if server != here.server:
        raise BatchSpansServers(
            f"{name} is for server {server!r}, but batch {bid} is on {here.server!r}; a batch lives on one server: "
            f"create it inside of via({server!r}), or route {name} to {here.server!r}"
        )
