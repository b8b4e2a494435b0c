"""Batches: jobs with callbacks that run when all of them have run, or have succeeded, or one has died."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from offsider.client.via import chosen_server
from offsider.config import test_mode
from offsider.config.installation import Installation
from offsider.core.errors import BatchFinished, InvalidOptions, UnknownBatch
from offsider.core.options import check_queue_name
from offsider.core.payload import new_jid
from offsider.ext.batches import store
from offsider.ext.batches.block import Block, Opens, check_server
from offsider.ext.batches.callbacks import Callbacks, Event
from offsider.ext.batches.status import MAX_JIDS, Status, make_status
from offsider.ext.batches.store import BID, CALLBACK_OF, Installed, lineages
from offsider.runtime.context import current_job

if TYPE_CHECKING:
    from offsider.config.config import Config

POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0


class Batch:
    """A batch of jobs. Needs the extension `Batches`.

    ::

        batch = Batch(description="Import 42").on("success", report, {"import_id": 42})
        with batch:
            import_row.enqueue_many([row.id] for row in rows)

    The pushes of the block are stored when it ends; after an exception, none is stored. ``async with`` works too. A
    batch that is created inside the block of another batch is its child. Pushes of other threads are no members, unless
    these run in a copy of the block's context (``contextvars.copy_context().run``).

    Args:
        bid: id of an existing batch, to add jobs or read its status. Omit it to create a batch; the other arguments are
            for new batches.
        description: shown on the pages.
        callback_queue: queue of the callbacks; default: the queue of each callback job.
        autoflush: store pushes each time this many are collected, so that a block of millions needs little memory.
            After an exception, the stored ones run, and the batch stays open. 0: store all at the end.
        tags: labels, a list or tuple of texts.
        data: JSON values for callbacks and the status.
        config: by default the configuration of this process.

    A batch is stored on the process's server, or on the server of the `via` block that creates the object.

    Attributes:
        bid: its id.
        config: its configuration.
        here: its server.

    Raises:
        ConfigurationError: the extension is not installed.
        InvalidOptions: an argument is invalid.
    """

    def __init__(
        self,
        bid: str = "",
        *,
        description: str = "",
        callback_queue: str = "",
        autoflush: int = 0,
        tags: Sequence[str] = (),
        data: Mapping[str, Any] | None = None,
        config: Config | Installation | None = None,
    ) -> None:
        self.here = Installation.of(config, "" if isinstance(config, Installation) else chosen_server())
        self.config = self.here.config
        _check_text("bid", bid)
        _check_text("description", description)
        self.bid = bid or new_jid()
        self._lives = Installed.of(self.config).lives(self.config)
        self._exists = bool(bid)
        self._parent = ""
        self._blocks: list[Block] = []
        queue = callback_queue and check_queue_name(callback_queue, what="callback_queue")
        self._callbacks = Callbacks(self.here, self.bid, queue)
        if type(autoflush) is not int or autoflush < 0:
            raise InvalidOptions(f"autoflush must be a whole number of 0 or more, got {autoflush!r}")
        self._autoflush = autoflush
        labels = cast("Sequence[object]", tags)
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise InvalidOptions(f"tags of a batch must be a list of texts, got {tags!r}")
        self._fields = {"description": description, "tags": json.dumps(tags), "data": _json_object(data)}

    def on(self, event: Event, callback: object, options: Mapping[str, Any] | None = None) -> Self:
        """Add a callback: a job that is pushed once, when the event occurs. Returns the batch.

        Args:
            event: ``complete``: each member has run at least once, or died. ``success``: all members have succeeded,
                and all children with their success callbacks. ``death``: the first member, of the batch or a child,
                has died, was removed or was cancelled.
            callback: a declared job, or the name of one. It is called with the bid and the options.
            options: a dict of JSON values.

        Raises:
            InvalidOptions: the event or the options are invalid, or the batch exists already.
            InvalidArguments: the job does not take two arguments.
            UnknownJob: no job has this name.
            BatchSpansServers: the job is for another server.
        """
        if self._exists:
            raise InvalidOptions(f"batch {self.bid} exists already; declare its callbacks before its first jobs")
        self._callbacks.add(event, callback, options)
        return self

    def jobs(self) -> Block:
        """Return a block that adds the jobs pushed inside: ``with batch.jobs():``, or ``async with``.

        Usable again, including from members, callbacks of children, and other processes, until the batch has succeeded.
        At its end, the block raises:

            UnknownBatch: the batch does not exist, or has expired.
            BatchFinished: the batch has succeeded; or its parent has.
            BatchSpansServers: a job is for another server; raised by its push.
            RedisFailure: jobs could not be stored. Those that were run, and the batch stays open.
        """
        return Block(self, self._autoflush)

    def __enter__(self) -> Self:
        self._blocks.append(self.jobs().__enter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._blocks.pop().__exit__(kind, error, at)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._blocks.pop().__aexit__(kind, error, at)

    def status(self) -> Status:
        """Read the status. Raises UnknownBatch if the batch does not exist or has expired."""
        if test_mode.current() is not None:
            raise self._unknown()
        redis = self.here.redis
        ((fields, sizes),) = store.sizes(redis, [self.bid])
        if not fields:
            raise self._unknown()
        failed, dead = ([*store.first_of(redis, self.bid, part, MAX_JIDS)] for part in ("-failed", "-died"))
        return make_status(self.bid, fields, sizes, failed, dead)

    async def astatus(self) -> Status:
        """As `status`."""
        return await asyncio.to_thread(self.status)

    def join(self, timeout_seconds: float | None = None) -> Status:
        """Wait until the batch is complete, and return its status.

        In a job, this occupies a thread of the worker, which the members may need: use callbacks instead.

        Raises:
            TimeoutError: it is not complete in time.
            UnknownBatch: as `status`.
        """
        for pause in self._pauses(timeout_seconds):
            status = self.status()
            if status.complete:
                return status
            time.sleep(pause)
        raise self._too_late(timeout_seconds)

    async def ajoin(self, timeout_seconds: float | None = None) -> Status:
        """As `join`."""
        for pause in self._pauses(timeout_seconds):
            status = await self.astatus()
            if status.complete:
                return status
            await asyncio.sleep(pause)
        raise self._too_late(timeout_seconds)

    def failed(self) -> Iterator[tuple[str, str]]:
        """Yield jid, and class and error, of the members that failed and will be retried."""
        return store.every(self.here.redis, self.bid, "-failed")

    def died(self) -> Iterator[tuple[str, str]]:
        """Yield jid, and class and error, of the members that died or were removed."""
        return store.every(self.here.redis, self.bid, "-died")

    def parent(self) -> Batch | None:
        """Return the parent; None without one. Raises UnknownBatch if the batch does not exist or has expired."""
        lineage = self._lineage()
        return Batch(lineage[1].bid, config=self.here) if len(lineage) > 1 else None

    def children(self) -> list[Batch]:
        """Return up to 500 children."""
        return [Batch(bid, config=self.here) for bid in store.kids(self.here.redis, self.bid)]

    def invalidate_all(self) -> None:
        """Mark the batch and its children as obsolete. Members check it with `valid`, and return early: a success.

        Raises UnknownBatch if the batch does not exist or has expired.
        """
        if not store.invalidate(self.here.redis, self.bid):
            raise self._unknown()

    async def ainvalidate_all(self) -> None:
        """As `invalidate_all`."""
        await asyncio.to_thread(self.invalidate_all)

    def valid(self) -> bool:
        """Whether neither the batch nor an ancestor was invalidated.

        Also true if the batch does not exist or has expired: after `delete`, its members still run.
        """
        return store.valid(self.here.redis, lineages(self.here).of(self.bid))

    async def avalid(self) -> bool:
        """As `valid`."""
        return await asyncio.to_thread(self.valid)

    def close_blocks(self) -> None:
        """Close all open blocks, and push the callbacks whose condition holds.

        For a batch that stays open because a process died in a block outside a job. No other process may be adding
        jobs. Raises UnknownBatch if the batch does not exist or has expired.
        """
        self.close("")

    def delete(self) -> bool:
        """Delete the batch; return whether it existed. Its jobs still run, without callbacks. Its parent goes on."""
        lineage = lineages(self.here).of(self.bid)
        existed = store.forget(self.here.redis, self.bid, lineage[1].bid if len(lineage) > 1 else "")
        if len(lineage) > 1:
            self._advance(lineage[1:], "closed", self.bid)
        return existed

    async def adelete(self) -> bool:
        """As `delete`."""
        return await asyncio.to_thread(self.delete)

    def __repr__(self) -> str:
        return f"Batch({self.bid!r})"

    def set_parent(self, parent: Opens) -> None:
        """For `Block`."""
        if parent.bid == self.bid or self._exists:
            return
        check_server(parent.here, parent.bid, f"batch {self.bid}", self.here.name)
        self._parent = parent.bid

    def open(self, token: str, delay_seconds: float) -> bool:
        """For `Block`."""
        is_new = not self._exists
        fields, calls, above = dict[str, str](), list[str](), list[str]()
        if is_new:
            fields = {**self._fields, **self._callbacks.fields()}
            calls = self._callbacks.jids("success")
            if self._parent:
                fields["parent"] = self._parent
        else:
            above = [level.bid for level in self._lineage()[1:]]
        life, redis = self._lives.batch + math.ceil(delay_seconds), self.here.redis
        found = store.open_block(redis, self.bid, self._parent, token, life, fields=fields, calls=calls, above=above)
        if found == store.MISSING:
            raise self._unknown()
        if found != store.OPENED:
            late = f"batch {self.bid}" if found == store.FINISHED else f"the parent {self._parent} of batch {self.bid}"
            raise BatchFinished(f"{late} has succeeded, so it accepts no more jobs; create another batch")
        self._exists = True
        return is_new

    def close(self, token: str) -> None:
        """For `Block`."""
        self._advance(self._lineage(), "closed", token)

    def withdraw(self) -> None:
        """For `Block`."""
        self.delete()
        self._exists = False

    def _advance(self, lineage: store.Lineage, event: str, token: str) -> None:
        redis = self.here.redis
        redis.run(*store.outcomes(redis.keys.prefix, lineage, self._lives).call(event, token))

    def _lineage(self) -> store.Lineage:
        lineage = lineages(self.here).of(self.bid)
        if not lineage:
            raise self._unknown()
        return lineage

    def _pauses(self, timeout_seconds: float | None) -> Iterator[float]:
        give_up = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = POLL_SECONDS
        while give_up is None or time.monotonic() < give_up:
            yield pause if give_up is None else max(0.0, min(pause, give_up - time.monotonic()))
            pause = min(pause * 2, MAX_POLL_SECONDS)

    def _too_late(self, timeout_seconds: float | None) -> TimeoutError:
        return TimeoutError(f"batch {self.bid} is not complete after {timeout_seconds:g} s")

    def _unknown(self) -> UnknownBatch:
        if test_mode.current() is not None:
            return UnknownBatch(
                f"there is no batch {self.bid}: a test mode is on, in which no batch is stored and no callback runs. "
                "Use `with testing.real():` or the fixture offsider_worker"
            )
        return UnknownBatch(f"there is no batch {self.bid} on server {self.here.name!r}, or it has expired")


def current_batch(config: Config | Installation | None = None) -> Batch:
    """Return the batch of the running job; for a callback, the batch that it belongs to.

    Raises:
        NoCurrentJob: no job is running here.
        UnknownBatch: the job has no batch.
    """
    payload = cast("Mapping[str, Any]", current_job().payload)
    bid = payload.get(BID) or payload.get(CALLBACK_OF)
    if not isinstance(bid, str):
        raise UnknownBatch(f"{payload.get('class')} JID-{payload.get('jid', '')} is in no batch")
    return Batch(bid, config=config)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidOptions(f"{name} of a batch must be a text, got {value!r}")


def _json_object(data: object) -> str:
    if data is not None and not isinstance(data, dict):
        raise InvalidOptions(f"data of a batch must be a dict, got {data!r}")
    try:
        return json.dumps(data or {}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidOptions(f"data of a batch must be JSON: {error}") from None
