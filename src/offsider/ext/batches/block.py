"""A block of pushes: collects them, and stores them with their membership when it ends.

1. Inside the block nothing is stored, unless ``autoflush`` is set. After an exception nothing is.
2. At its end, one script opens the batch for the block. Then the jobs are stored, a thousand per round trip; the script
   that stores a job also adds it to the batch. At last, a script closes the block, and pushes callbacks whose condition
   already holds.
3. A batch with an open block has no callbacks. Blocks of one batch that overlap share one `Opening`: the first that
   stores opens the batch, and the last that ends closes it.
4. With ``after_commit``, blocks are stored after the commit. If a block around them raised before it, storing them
   opens its batch, so that it is ended again then.
5. The token of an opening inside a job is the jid: a run that was killed leaves its block open, and the next run of the
   job closes it. Children that it left open are deleted then, because the next run creates others (`runs`).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakValueDictionary

from offsider.client import Client
from offsider.client.alike import templates
from offsider.client.client import call_hook
from offsider.client.deferred import Collector, collecting, collector
from offsider.config import test_mode
from offsider.core.errors import BatchFinished, BatchSpansServers, InvalidOptions, RedisFailure, UnknownBatch
from offsider.core.payload import new_jid
from offsider.ext.batches import store
from offsider.ext.batches.store import BID, Lives, lineages
from offsider.runtime.context import current_job_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsider.client.deferred import DeferredCallback
    from offsider.client.plan import AfterCommit
    from offsider.config.hooks import Prepared
    from offsider.config.installation import Installation

CHUNK = 1_000


class StoredBatch:
    """A batch as its blocks use it.

    Args:
        server: its server.
        bid: of an existing batch; empty for a new one.

    Attributes:
        server, config: as given.
        bid: its id.
        exists: whether it was created.
        fields: of a new batch.
        success_jids: of a new batch, the ids of its success callbacks.
    """

    def __init__(self, server: Installation, bid: str) -> None:
        self.server = server
        self.config = server.config
        self.bid = bid or new_jid()
        self.exists = bool(bid)
        self.fields: dict[str, str] = {}
        self.success_jids: list[str] = []
        self._parent = ""
        self._lives = Lives.of(self.config)

    def set_parent(self, parent: StoredBatch) -> None:
        """Make a new batch a child."""
        if parent.bid == self.bid or self.exists:
            return
        check_server(parent.server, parent.bid, f"batch {self.bid}", self.server.name)
        self._parent = parent.bid

    def open(self, token: str, delay_seconds: float) -> bool:
        """Create or reopen the batch for an opening, and keep it longer by the delay; return whether it is new."""
        is_new, above = not self.exists, list[str]()
        fields = {**self.fields, **({"parent": self._parent} if self._parent else {})} if is_new else {}
        if not is_new:
            above = [level.bid for level in self.lineage()[1:]]
        life_seconds, calls = self._lives.batch + math.ceil(delay_seconds), self.success_jids if is_new else []
        found = store.open_block(
            self.server.redis, self.bid, self._parent, token, life_seconds, fields=fields, calls=calls, above=above
        )
        if found == store.MISSING:
            raise self.unknown()
        if found != store.OPENED:
            late = f"batch {self.bid}" if found == store.FINISHED else f"the parent {self._parent} of batch {self.bid}"
            raise BatchFinished(f"{late} has succeeded, so it accepts no more jobs; create another batch")
        self.exists = True
        return is_new

    def close(self, token: str) -> None:
        """Close an opening, or all with an empty token."""
        self._note_closed(self.lineage(), token)

    def delete(self) -> bool:
        """See `Batch.delete`."""
        lineage = lineages(self.server).of(self.bid)
        existed = store.forget(self.server.redis, self.bid, lineage[1].bid if len(lineage) > 1 else "")
        if len(lineage) > 1:
            self._note_closed(lineage[1:], self.bid)
        return existed

    def withdraw(self) -> None:
        """Delete a new batch whose block raised. It can be created again."""
        self.delete()
        self.exists = False

    def lineage(self) -> store.Lineage:
        """Return the batch with its ancestors. Raises UnknownBatch."""
        lineage = lineages(self.server).of(self.bid)
        if not lineage:
            raise self.unknown()
        return lineage

    def unknown(self) -> UnknownBatch:
        """Return the error for a batch that does not exist."""
        if test_mode.current() is not None:
            return UnknownBatch(
                f"there is no batch {self.bid}: a test mode is on, in which no batch is stored and no callback runs. "
                "Use `with testing.real():` or the fixture offsider_worker"
            )
        return UnknownBatch(f"there is no batch {self.bid} on server {self.server.name!r}, or it has expired")

    def _note_closed(self, lineage: store.Lineage, token: str) -> None:
        redis = self.server.redis
        redis.run(*store.outcomes(redis.keys.prefix, lineage, self._lives).call("closed", token))


class Opening:
    """The overlapping blocks of one batch, in one job or outside of jobs.

    Args:
        jid: of the job; empty outside of jobs.

    Attributes:
        blocks: those that collect or store.
        has_stored: whether one of them has stored its pushes.
    """

    def __init__(self, jid: str) -> None:
        self.blocks = set[Block]()
        self.has_stored = False
        self._jid = jid
        self._token = ""
        self._delay_seconds = 0.0
        self._is_new = False
        self._lock = threading.Lock()  # held during the requests: a batch that is being closed is not open

    def open(self, batch: StoredBatch, delay_seconds: float) -> None:
        """Open the batch, unless it is open. Its keys outlive a job that is due after the delay."""
        with self._lock:
            if not self._token:
                token = self._jid or new_jid()
                self._is_new = batch.open(token, delay_seconds)
                self._token, self._delay_seconds = token, delay_seconds
            elif delay_seconds > self._delay_seconds:
                batch.open(self._token, delay_seconds)
                self._delay_seconds = delay_seconds

    def leave(self, block: Block, *, raised: bool = False) -> None:
        """Note that a block has ended. The last one closes the batch, or deletes it if nothing of it is stored."""
        with self._lock:
            self.blocks.discard(block)
            if self._token and not self.blocks:
                token, self._token = self._token, ""
                if raised and self._is_new and not self.has_stored:
                    block.batch.withdraw()
                else:
                    block.batch.close(token)

    def abandon(self, block: Block) -> None:
        """Note that a block has stored a part of its pushes only: the batch stays open."""
        with self._lock:
            self.blocks.discard(block)
            self._token = ""


class _Openings:
    """The openings of the batches of one server, while a block refers to them."""

    def __init__(self) -> None:
        self._known = WeakValueDictionary[tuple[str, str], Opening]()
        self._lock = threading.Lock()

    def of(self, bid: str, jid: str) -> Opening:
        with self._lock:
            opening = self._known.get((bid, jid))
            if opening is None:
                opening = self._known[bid, jid] = Opening(jid)
            return opening


class Block(Collector):
    """The pushes of one ``with batch.jobs():`` or ``async with batch.jobs():``."""

    def __init__(self, batch: StoredBatch, autoflush: int) -> None:
        self.batch = batch
        self._autoflush = autoflush
        self._outer: Block | None = None
        self._pushes: list[DeferredCallback] = []
        self._count = 0
        self._has_stored = False
        self._raised = False
        self._lock = threading.Lock()
        self._collecting: AbstractContextManager[None] | None = None
        job, openings = current_job_or_none(), batch.server.shared.get(_Openings, _Openings)
        self._opening = openings.of(batch.bid, "" if job is None else job.jid)

    def __enter__(self) -> Self:
        outer = collector()
        if isinstance(outer, Block):
            self._outer = outer
            self.batch.set_parent(outer.batch)
        self._opening.blocks.add(self)
        self._collecting = collecting(self)
        self._collecting.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop_collecting(kind, error, at)
        if kind is not None:
            self._undo()
            return
        hook, store = self._ending()
        store() if hook is None else hook(store)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._stop_collecting(kind, error, at)
        if kind is not None:
            await asyncio.to_thread(self._undo)
            return
        hook, store = self._ending()
        await (asyncio.to_thread(store) if hook is None else call_hook(hook, store))

    def add(self, pushes: DeferredCallback) -> bool:
        if pushes.installation.config is not self.batch.config:
            raise BatchSpansServers(
                f"batch {self.batch.bid}: a push with another Config cannot join it: push it outside of the block"
            )
        for push in templates(pushes.pushes):
            push.server = push.server or pushes.installation.name
            check_server(self.batch.server, self.batch.bid, push.payload["class"], push.server)
            payload = cast("dict[str, Any]", push.payload)
            payload[BID] = self.batch.bid
            if payload.get("retry") is False:  # its failed run would be deleted, and nothing could continue the batch
                payload["retry"] = 0
        with self._lock:
            self._pushes.append(pushes)
            self._count += len(pushes.pushes)
            return 0 < self._autoflush <= self._count

    def flush(self) -> None:
        hook, store = self.batch.config.after_commit, self._storing(last=False)
        store() if hook is None else hook(store)

    def open(self, delay_seconds: float) -> None:
        """Open the batch for this block, after the blocks around it, until a job after the delay has ended."""
        if self._outer is not None:
            self._outer.open(delay_seconds)
        self._opening.open(self.batch, delay_seconds)

    def _stop_collecting(self, *error: Any) -> None:
        assert self._collecting is not None  # noqa: S101  # entered
        self._collecting.__exit__(*error)
        self._raised = error[0] is not None
        for pushes in self._pushes if self._raised else ():
            test_mode.waiting.discard(pushes)

    def _ending(self) -> tuple[AfterCommit | None, Callable[[], None]]:
        """Return the hook that calls after the commit, if there is one, and what it calls."""
        hook = self.batch.config.after_commit
        if hook is not None:  # there may be no commit
            self._opening.blocks.discard(self)
        return hook, self._storing(last=True)

    def _undo(self) -> None:
        """End a block that raised."""
        if self._has_stored:
            self._opening.abandon(self)
        else:
            try:
                self._opening.leave(self, raised=True)
            except (RedisFailure, UnknownBatch) as error:  # the block's own error is raised
                self.batch.config.handle_error(error, {"context": "closing a batch whose block raised"})
        self._undo_outer()

    def _undo_outer(self) -> None:
        """End the block around this one again, if it raised before the commit."""
        if self._outer is not None and self._outer._raised:  # noqa: SLF001
            self._outer._undo()  # noqa: SLF001

    def _storing(self, *, last: bool) -> Callable[[], None]:
        with self._lock:
            pushes, self._pushes, self._count = self._pushes, [], 0
        return test_mode.bound(partial(self._store, pushes, last=last))

    def _store(self, pushes: Sequence[DeferredCallback], *, last: bool) -> None:
        if self._raised:  # after a flush that waits for the commit
            for each in pushes:
                test_mode.waiting.discard(each)
            return
        self._opening.blocks.add(self)  # again, after a commit
        is_real = test_mode.current() is None
        try:
            jobs: list[Prepared] = [job for each in pushes for job in each.prepare()]
            self._check(jobs)
            if is_real:
                self.open(self._delay_seconds(jobs))
        except BaseException:
            if last:
                self._undo()
            raise
        self._has_stored = self._opening.has_stored = True
        try:
            self._send(jobs, max((each.wait_replicas for each in pushes), default=0))
        except BaseException:
            self._opening.abandon(self)
            self._undo_outer()
            raise
        if last:
            self._opening.leave(self)
            self._undo_outer()

    def _check(self, jobs: Sequence[Prepared]) -> None:
        for server, job in {job.server: job for job in jobs}.items():
            check_server(self.batch.server, self.batch.bid, job.payload["class"], server)

    def _delay_seconds(self, jobs: Sequence[Prepared]) -> float:
        """Return the time until the last of the jobs is due."""
        last = max((job.at for job in jobs if job.at is not None), default=0.0)
        return max(0.0, last - self.batch.config.clock.now())

    def _send(self, jobs: Sequence[Prepared], replicas: int) -> None:
        client = Client.of(self.batch.server)
        for start in range(0, len(jobs), CHUNK):
            client.store_prepared(jobs[start : start + CHUNK], replicas)


def check_member(payload: Mapping[str, Any]) -> None:
    """Raise InvalidOptions for a job whose failed run would be deleted: changed by middleware, or with a stored bid."""
    if payload.get("retry") is False:
        raise InvalidOptions(f"{payload['class']}: a job of a batch cannot have retry=False; use retry=0")


def check_server(server: Installation, bid: str, name: str, other: str) -> None:
    """Raise BatchSpansServers if a job is for another server than its batch."""
    if other != server.name:
        raise BatchSpansServers(
            f"{name} is for server {other!r}, but batch {bid} is on {server.name!r}; a batch lives on one server: "
            f"create it inside of via({other!r}), or route {name} to {server.name!r}"
        )
