"""The client: pushes jobs from blocking code, and from coroutines."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from offsider.client.alike import Pushes, passed, stored_jids, templates
from offsider.client.client_registry import ClientRegistry
from offsider.client.deferred import Collector
from offsider.client.delivery import WAIT_TIMEOUT_MS, Outcome, Request, not_sent, only_outcome
from offsider.client.group_commit import GroupCommit, GroupCommits
from offsider.client.plan import AfterCommit, Planner, PushPlan
from offsider.client.prepared import DeclaredJob
from offsider.client.spooling import Spooling
from offsider.client.template import PushTemplate
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.hooks import Prepared
from offsider.config.installation import Installation
from offsider.config.loading import DEFAULT_ENVIRONMENT
from offsider.config.settings import ClientSection
from offsider.core.job_id import JobId
from offsider.runtime.middleware import ClientChain, Push
from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")
#: Places in the code that `warn_on_event_loop` has reported.
_warned: set[tuple[str, int]] = set()


class Client(Planner):
    """Pushes jobs to the Redis of one configuration. Thread-safe: create one and share it.

    Coroutines use ``apush`` and ``apush_bulk``. Client middleware, the queue resolver and ``after_commit`` are called
    on their event loop and must not block it. Pushes that wait at the same time are stored in one round trip.

    Args:
        config: defaults, middleware, strict arguments, and the server.
        redis: the pool to use; default: the pool shared by all clients of the configuration, opened at the first
            push.
        middleware: a chain instead of the configuration's (each capsule has its own copy).
        timeout_seconds: maximum duration of a push; default: the setting ``client.push_timeout_seconds``.

    Attributes:
        installation: the server that the client pushes to, with its connections.
        config: the configuration of the client.
    """

    def __init__(
        self,
        config: Config | Installation,
        redis: Redis | None = None,
        *,
        middleware: ClientChain | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        super().__init__(Installation.of(config), middleware)
        self._redis = redis
        self._timeout_seconds = timeout_seconds
        # The relay of the spool uses the servers of the configuration: pushes to another pool have no spool.
        is_own = redis is None or redis.settings is self.installation.settings
        self._settings = self.config.client if is_own else ClientSection()
        self._registry = ClientRegistry(self.config)
        self._commits = GroupCommits(self._commit_of)

    @classmethod
    def of(cls, config: Config | Installation | None = None) -> Client:
        """Return the client that all users of a configuration share; by default this process's."""
        server = Installation.of(config)
        return server.shared.peek(Client) or server.shared.get(Client, lambda: Client(server))

    def push(self, payload: Mapping[str, Any], *, wait_replicas: int = 0) -> JobId[Any]:
        """Store one job and return its jid, which is falsy if client middleware canceled or the push guard refused it.

        ::

            client.push({"class": "HardJob", "args": [1]})                  # a job of another program
            client.push({"class": hard_job, "args": [1], "queue": "low"})   # one declared in Python
            client.push({"class": "HardJob", "args": [1], "at": timedelta(minutes=5)})

        Args:
            payload: ``class`` and ``args``, and any of: ``queue``, ``retry`` and the other options, ``jid``,
                ``at`` (seconds or a timedelta from now, an aware datetime, or epoch seconds), your own keys.
            wait_replicas: wait up to a second until this many replicas have the job.

        With ``config.after_commit`` set, and unless ``after_commit`` is False in the payload or the declaration, the
        jid is returned now and the push happens in that callback.

        Raises:
            InvalidJob: the payload is invalid (InvalidArguments, InvalidOptions).
            RedisUnavailable: the server could not be reached; ``ambiguous`` if it may have stored the job.
            RedisRefused: the server refused the job; QueueFull if it is out of memory.
            NotReplicated: the job is stored, but not on ``wait_replicas`` replicas. Do not push it again.
        """
        return self._store(self._plan(payload, wait_replicas))[0]

    async def apush(self, payload: Mapping[str, Any], *, wait_replicas: int = 0) -> JobId[Any]:
        """As `push`, from a coroutine.

        With ``config.after_commit`` set, the push happens in that callback, which cannot be awaited: it blocks. Django
        allows no database call on an event loop, so its ``transaction.on_commit`` is called in the thread in which
        Django runs synchronous code.
        """
        return (await self._astore(self._plan(payload, wait_replicas)))[0]

    def push_call(
        self,
        job: DeclaredJob,
        key: object,
        args: Sequence[Any],
        item: Callable[[Client, dict[str, Any]], Mapping[str, Any]],
    ) -> JobId[Any]:
        """Store one job with these positional arguments, at once.

        Args:
            job: its declaration.
            key: identifies the job and its options.
            args: the arguments.
            item: adds the options, in stored form, to the payload of `push`.

        Raises:
            InvalidJob, RedisUnavailable, RedisRefused, NotReplicated: as for `push`.
        """
        usual = self.usual(job, key, args, item)
        if usual is None:
            return self.push(item(self, {"args": args, "class": job}))
        warn_on_event_loop(self.config)
        self.store_prepared([usual])
        return JobId.at(self.server_of(usual.server), usual.jid)

    async def apush_call(
        self,
        job: DeclaredJob,
        key: object,
        args: Sequence[Any],
        item: Callable[[Client, dict[str, Any]], Mapping[str, Any]],
    ) -> JobId[Any]:
        """As `push_call`, from a coroutine."""
        usual = self.usual(job, key, args, item)
        if usual is None:
            return await self.apush(item(self, {"args": args, "class": job}))
        await self._astore_prepared([usual])
        return JobId.at(self.server_of(usual.server), usual.jid)

    def push_bulk(
        self,
        items: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        spread_interval: float | timedelta | None = None,
        wait_replicas: int = 0,
    ) -> list[JobId[Any]]:
        """Store many jobs of one class and return their jids in order; falsy for canceled and refused pushes.

        ::

            client.push_bulk({"class": "HardJob", "args": [[1], [2], [3]]})
            client.push_bulk({"class": "HardJob", "args": ([n] for n in range(10**6))})    # lazily
            client.push_bulk({"class": "HardJob", "args": [[1], [2]], "at": [60, 120]})

        Args:
            items: as for `push`, but ``args`` is an iterable with a list for each job; ``at`` is one time, or an
                iterable with exactly one for each job. ``batch_size`` and ``spread_interval`` may be items too, as in
                Ruby.
            batch_size: jobs per round trip; default 1,000, or 100 for scheduled jobs.
            spread_interval: schedule the jobs at random times within this many seconds from now, or a timedelta (at
                least 5 seconds).
            wait_replicas: as for `push`, for each batch; NotReplicated then names the last job of the batch.

        Batches are stored one by one: after an error, earlier batches stay stored. ``config.after_commit`` gets one
        callback for each batch; until the commit, the jobs are in memory.

        Raises:
            InvalidJob, RedisUnavailable, RedisRefused, NotReplicated: as for `push`.
        """
        return self._store(self._plan_bulk(items, batch_size, spread_interval, wait_replicas))

    async def apush_bulk(
        self,
        items: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        spread_interval: float | timedelta | None = None,
        wait_replicas: int = 0,
    ) -> list[JobId[Any]]:
        """As `push_bulk`, from a coroutine."""
        return await self._astore(self._plan_bulk(items, batch_size, spread_interval, wait_replicas))

    @property
    def redis(self) -> Redis:
        """The pool for the server of its configuration."""
        self._redis = self._redis or self.installation.redis
        return self._redis

    def close(self) -> None:
        """Close the idle connections to all servers; the client may be used again."""
        self.redis.close()
        self.installation.close()

    def limit_seconds(self, wait_replicas: int = 0) -> float:
        """Return the duration that a push may take."""
        limit = self._timeout_seconds or self.config.client.push_timeout_seconds
        return limit + (WAIT_TIMEOUT_MS / 1000 if wait_replicas else 0)

    def _new_template(self, job: DeclaredJob, item: Mapping[str, Any]) -> PushTemplate | None:
        # A subclass with its own method gets every push.
        is_own = type(self).push is Client.push and type(self).apush is Client.apush
        return super()._new_template(job, item) if is_own else None

    def store(self, push: Push, wait_replicas: int = 0) -> JobId[Any]:
        """Run client middleware on a push from `build` and store it. Ignores ``after_commit``."""
        (jid,) = self.store_all([push], wait_replicas)
        return self._job_ids([jid], push.server)[0]

    def store_all(self, pushes: Pushes, wait_replicas: int = 0) -> Sequence[str]:
        """As `store`, for the pushes of one job in one round trip; returns their jids."""
        batch = self.prepare_all(pushes)
        return stored_jids(batch, self.store_prepared(passed(batch), wait_replicas))

    async def _astore_all(self, pushes: Pushes, wait_replicas: int) -> Sequence[str]:
        batch = self.prepare_all(pushes)
        return stored_jids(batch, await self._astore_prepared(passed(batch), wait_replicas))

    def store_prepared(self, jobs: Sequence[Prepared], wait_replicas: int = 0) -> Collection[str]:
        """Store jobs of one server; returns the jids of those that the push guard refused."""
        if not jobs or test_mode.takes(jobs):
            return ()
        if self._settings.spool and not wait_replicas:
            server = self.server_of(jobs[0].server)
            return only_outcome(Spooling.of(self.config).store(server, [jobs], self._send))
        return only_outcome(self._request([jobs], wait_replicas).send())

    async def _astore_prepared(self, jobs: Sequence[Prepared], wait_replicas: int = 0) -> Collection[str]:
        if not jobs or test_mode.takes(jobs):
            return ()
        if wait_replicas:  # others do not wait with it
            return only_outcome(await self._request([jobs], wait_replicas).asend(self.server_of(jobs[0].server)))
        return await self._commits.of(jobs[0].server).store(jobs)

    def _send(self, groups: Sequence[Sequence[Prepared]]) -> Sequence[Outcome]:
        return self._request(groups, 0).send()

    async def _asend(self, groups: Sequence[Sequence[Prepared]]) -> Sequence[Outcome]:
        return await self._request(groups, 0).asend(self.server_of(groups[0][0].server))

    async def _asend_or_spool(self, groups: Sequence[Sequence[Prepared]]) -> Sequence[Outcome]:
        return await Spooling.of(self.config).astore(self.server_of(groups[0][0].server), groups, self._asend)

    def _request(self, groups: Sequence[Sequence[Prepared]], wait_replicas: int) -> Request:
        server = groups[0][0].server
        redis = self.installation.for_server(server).redis if server else self._redis or self.redis
        also = self._registry.commands(redis.keys, server)
        seconds = self.limit_seconds(wait_replicas)
        return Request(redis, groups, also, seconds, wait_replicas, self.config.push_guard)

    def _commit_of(self, server: str) -> GroupCommit:
        if self._settings.spool:  # no push is late: those that waited during an outage go to the spool
            send, limit = self._asend_or_spool, lambda: math.inf
        else:
            send, limit = self._asend, self.limit_seconds
        return GroupCommit(send, limit, lambda: not_sent(self.server_of(server).settings))

    def _store(self, plan: PushPlan) -> list[JobId[Any]]:
        if plan.hook is None:
            warn_on_event_loop(self.config)
        jids: list[JobId[Any]] = []
        for pushes in plan.batches:
            if plan.hook is None:
                stored = self.store_all(pushes, plan.wait_replicas)
            else:
                deferred = self._deferred(self, pushes, plan.wait_replicas)
                if not isinstance(plan.hook, Collector):
                    plan.hook(deferred)
                elif plan.hook.add(deferred):
                    plan.hook.flush()
                stored = deferred.jids
            jids += self._job_ids(stored, templates(pushes)[0].server)
        return jids

    async def _astore(self, plan: PushPlan) -> list[JobId[Any]]:
        jids: list[JobId[Any]] = []
        for pushes in plan.batches:
            if plan.hook is None:
                stored = await self._astore_all(pushes, plan.wait_replicas)
            else:
                deferred = self._deferred(self, pushes, plan.wait_replicas)
                if not isinstance(plan.hook, Collector):
                    await call_hook(plan.hook, deferred)
                elif plan.hook.add(deferred):
                    await asyncio.to_thread(plan.hook.flush)  # with the caller's context
                stored = deferred.jids
            jids += self._job_ids(stored, templates(pushes)[0].server)
        return jids


async def call_hook(defer: AfterCommit, callback: Callable[[], None]) -> None:
    """Call ``after_commit`` on the loop, or where Django refuses that, in the thread of its synchronous code."""
    try:
        defer(callback)
    except Exception as error:
        if not _is_for_threads(error):
            raise
    else:
        return
    # Outside of the handler: the error would keep the waiting push in memory.
    from asgiref.sync import sync_to_async  # a dependency of Django, which raised the error

    await sync_to_async(defer)(callback)


def _is_for_threads(error: Exception) -> bool:
    """Whether Django refused the database call on an event loop, before executing it."""
    kind = type(error)
    return (kind.__module__, kind.__qualname__) == ("django.core.exceptions", "SynchronousOnlyOperation")


def warn_on_event_loop(config: Config) -> None:
    """Log a warning if this thread runs an event loop, which the caller is about to block.

    In development, and once for each place in the code.
    """
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - documented; the other function raises, which takes longer
        return
    if config.worker.environment != DEFAULT_ENVIRONMENT:
        return
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to get the caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("offsider."):
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno
    if place in _warned or not test_mode.wants_advice():
        return
    _warned.add(place)
    logger.warning(
        "%s:%d pushes a job on a running event loop, and blocks it until Redis replies: use "
        "`await` with aenqueue, aenqueue_in, aenqueue_at or aenqueue_many",
        *place,
    )
