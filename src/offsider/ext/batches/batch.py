"""Batches: jobs with callbacks that run when all of them have run, or have succeeded, or one has died."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast, get_args

from offsider.client import Client
from offsider.client.prepared import declared_of
from offsider.client.via import chosen_server
from offsider.config import test_mode
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, UnknownBatch
from offsider.core.options import check_queue_name
from offsider.core.payload import decode, encode
from offsider.core.suggestions import suggest
from offsider.ext.batches import store
from offsider.ext.batches.block import Block, StoredBatch, check_server
from offsider.ext.batches.status import MAX_JIDS, Status, make_status
from offsider.ext.batches.store import BID, CALLBACK_OF, lineages
from offsider.jobs import registry
from offsider.runtime.context import current_job

if TYPE_CHECKING:
    from offsider.config.config import Config

Event: TypeAlias = Literal["complete", "success", "death"]
EVENTS: tuple[str, ...] = get_args(Event)
POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0


class Callbacks:
    """The callbacks of one batch, by event: jobs that are prepared when they are declared, and pushed by a script.

    Args:
        server: the server of the batch.
        queue: queue of all callbacks; empty: the queue of each callback job.
    """

    def __init__(self, server: Installation, bid: str, queue: str) -> None:
        self._server = server
        self._bid = bid
        self._queue = queue
        self._prepared: dict[str, list[dict[str, Any]]] = {}

    def add(self, event: Event, callback: object, options: Mapping[str, Any] | None) -> None:
        """Add a callback; see `Batch.on`."""
        if event not in EVENTS:
            raise InvalidOptions(f"batches have no event {event!r}{suggest(event, EVENTS)}; use one of {EVENTS}")
        if options is not None and not isinstance(cast("object", options), dict):
            raise InvalidOptions(f"the options of a callback must be a dict, got {type(options).__name__}")
        job = registry.find(callback) if isinstance(callback, str) else callback
        if declared_of(job) is None:
            raise InvalidOptions(f"a callback must be a declared job or the name of one, got {callback!r}")
        self._prepared.setdefault(event, []).append(self._prepare(job, dict(options or {})))

    def fields(self) -> dict[str, str]:
        """Return the fields of the batch that describe its callbacks."""
        queues = sorted({call["queue"] for each in self._prepared.values() for call in each})
        return {"queues": json.dumps(queues)} | {
            f"on_{event}": json.dumps(each) for event, each in self._prepared.items()
        }

    def jids(self, event: Event) -> list[str]:
        """Return the jids of the callbacks of an event."""
        return [call["jid"] for call in self._prepared.get(event, ())]

    def _prepare(self, job: object, options: Mapping[str, Any]) -> dict[str, Any]:
        """Prepare a callback; a script adds ``enqueued_at`` when it pushes the job."""
        client = Client.of(self._server)
        item: dict[str, Any] = {"class": job, "args": [self._bid, options], CALLBACK_OF: self._bid}
        if self._queue:
            item["queue"] = self._queue
        push = client.build(item)
        check_server(self._server, self._bid, f"the callback {push.payload['class']}", push.server or self._server.name)
        prepared = client.prepare(push)
        if prepared is None:
            raise InvalidOptions(f"client middleware canceled the push of the callback {push.payload['class']}")
        payload = decode(prepared.raw)
        payload.pop("enqueued_at", None)
        return {
            "name": payload["class"],
            "jid": prepared.jid,
            "queue": prepared.queue,
            "wire": self._server.settings.wire_version,
            "payload": encode(payload)[:-1].decode(),
        }


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
        server: its server.
        stored: for `Block` and the pages.

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
        self.server = Installation.of(config, "" if isinstance(config, Installation) else chosen_server())
        self.config = self.server.config
        _check_text("bid", bid)
        _check_text("description", description)
        self.stored = StoredBatch(self.server, bid)
        self.bid = self.stored.bid
        self._blocks: list[Block] = []
        queue = callback_queue and check_queue_name(callback_queue, what="callback_queue")
        self._callbacks = Callbacks(self.server, self.bid, queue)
        if type(autoflush) is not int or autoflush < 0:
            raise InvalidOptions(f"autoflush must be a whole number of 0 or more, got {autoflush!r}")
        self._autoflush = autoflush
        labels = cast("Sequence[object]", tags)
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise InvalidOptions(f"tags of a batch must be a list of texts, got {tags!r}")
        about = {"description": description, "tags": json.dumps(tags), "data": _json_object(data)}
        self.stored.fields = about | self._callbacks.fields()

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
        if self.stored.exists:
            raise InvalidOptions(f"batch {self.bid} exists already; declare its callbacks before its first jobs")
        self._callbacks.add(event, callback, options)
        self.stored.fields |= self._callbacks.fields()
        self.stored.success_jids = self._callbacks.jids("success")
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
        return Block(self.stored, self._autoflush)

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
            raise self.stored.unknown()
        redis = self.server.redis
        ((fields, sizes),) = store.sizes(redis, [self.bid])
        if not fields:
            raise self.stored.unknown()
        failed, dead = (
            [jid for jid, _ in islice(store.every(redis, self.bid, part), MAX_JIDS)] for part in ("-failed", "-died")
        )
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
        return store.every(self.server.redis, self.bid, "-failed")

    def died(self) -> Iterator[tuple[str, str]]:
        """Yield jid, and class and error, of the members that died or were removed."""
        return store.every(self.server.redis, self.bid, "-died")

    def parent(self) -> Batch | None:
        """Return the parent; None without one. Raises UnknownBatch if the batch does not exist or has expired."""
        lineage = self.stored.lineage()
        return Batch(lineage[1].bid, config=self.server) if len(lineage) > 1 else None

    def children(self) -> list[Batch]:
        """Return up to 500 children."""
        return [Batch(bid, config=self.server) for bid in store.kids(self.server.redis, self.bid)]

    def invalidate_all(self) -> None:
        """Mark the batch and its children as obsolete. Members check it with `valid`, and return early: a success.

        Raises UnknownBatch if the batch does not exist or has expired.
        """
        if not store.invalidate(self.server.redis, self.bid):
            raise self.stored.unknown()

    async def ainvalidate_all(self) -> None:
        """As `invalidate_all`."""
        await asyncio.to_thread(self.invalidate_all)

    def valid(self) -> bool:
        """Whether neither the batch nor an ancestor was invalidated.

        Also true if the batch does not exist or has expired: after `delete`, its members still run.
        """
        return store.valid(self.server.redis, lineages(self.server).of(self.bid))

    async def avalid(self) -> bool:
        """As `valid`."""
        return await asyncio.to_thread(self.valid)

    def close_blocks(self) -> None:
        """Close all open blocks, and push the callbacks whose condition holds.

        For a batch that stays open because a process died in a block outside a job. No other process may be adding
        jobs. Raises UnknownBatch if the batch does not exist or has expired.
        """
        self.stored.close("")

    def delete(self) -> bool:
        """Delete the batch; return whether it existed. Its jobs still run, without callbacks. Its parent goes on."""
        return self.stored.delete()

    async def adelete(self) -> bool:
        """As `delete`."""
        return await asyncio.to_thread(self.delete)

    def __repr__(self) -> str:
        return f"Batch({self.bid!r})"

    def _pauses(self, timeout_seconds: float | None) -> Iterator[float]:
        give_up = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = POLL_SECONDS
        while give_up is None or time.monotonic() < give_up:
            yield pause if give_up is None else max(0.0, min(pause, give_up - time.monotonic()))
            pause = min(pause * 2, MAX_POLL_SECONDS)

    def _too_late(self, timeout_seconds: float | None) -> TimeoutError:
        return TimeoutError(f"batch {self.bid} is not complete after {timeout_seconds:g} s")


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
