"""The blocking client."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from offsider.client import bulk
from offsider.client.alike import Pushes, templates
from offsider.client.base import AfterCommit, BaseClient, take_replicas
from offsider.client.collecting import Collector
from offsider.client.delivery import Delivery
from offsider.client.event_loop import warn_on_event_loop
from offsider.client.prepared import Prepared, passed, stored_jids
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.job_id import JobId
from offsider.runtime.middleware import ClientChain, Push
from offsider.storage.redis import Redis, deadline_after


class Client(BaseClient):
    """Pushes jobs to the Redis of one configuration. Thread-safe: create one and share it.

    Args:
        config: defaults, middleware, strict arguments, and the server.
        redis: the pool to use; default: the pool shared by all clients of the configuration, opened at the first
            push.
        middleware: a chain instead of the configuration's (each capsule has its own copy).
        timeout_seconds: maximum duration of a push; default: the setting ``client.push_timeout_seconds``.
    """

    def __init__(
        self,
        config: Config | Installation,
        redis: Redis | None = None,
        *,
        middleware: ClientChain | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        super().__init__(config, middleware, timeout_seconds)
        self._redis = redis

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
        payload, wait_replicas = take_replicas(payload, wait_replicas)
        payload, defer = self._take_hook(payload, wait_replicas)
        push = self._preparer.builder.build(payload)
        if defer is None:
            warn_on_event_loop(self.config)
            return self.store(push, wait_replicas)
        return self._defer(defer, [push], wait_replicas)[0]

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
        items, wait_replicas = take_replicas(items, wait_replicas)
        items, defer = self._take_hook(items, wait_replicas)
        planned = bulk.plan(self._preparer, items, batch_size, spread_interval)
        jids: list[JobId[Any]] = []
        if defer is not None:
            for pushes in planned.pushes(self.config.clock.now()):
                jids += self._defer(defer, pushes, wait_replicas)
            return jids
        warn_on_event_loop(self.config)
        for batch in planned.batches(self._preparer):
            stopped = self.store_prepared(passed(batch), wait_replicas)
            jids += self._job_ids(stored_jids(batch, stopped), planned.template.server)
        return jids

    @property
    def redis(self) -> Redis:
        """The pool for the server of its configuration."""
        if self._redis is None:
            self._redis = self.installation.redis
        return self._redis

    def close(self) -> None:
        """Close the idle connections to all servers; the client may be used again."""
        self.redis.close()
        self.installation.close()

    def store(self, push: Push, wait_replicas: int = 0) -> JobId[Any]:
        """Run client middleware on a push from `build` and store it. Ignores ``after_commit``."""
        prepared = self.prepare(push)
        if prepared is None:
            return JobId("")
        stopped = self.store_prepared([prepared], wait_replicas)
        return JobId("") if stopped else JobId.at(self._there(prepared.server), prepared.jid)

    def store_all(self, pushes: Pushes, wait_replicas: int = 0) -> Sequence[str]:
        """As `store`, for the pushes of one job in one round trip; returns their jids."""
        batch = self.prepare_all(pushes)
        return stored_jids(batch, self.store_prepared(passed(batch), wait_replicas))

    def _defer(self, hook: AfterCommit | Collector, pushes: Pushes, wait_replicas: int) -> list[JobId[Any]]:
        deferred = self._deferred(self, pushes, wait_replicas)
        if not isinstance(hook, Collector):
            hook(deferred)
        elif hook.add(deferred):
            hook.flush()
        return self._job_ids(deferred.jids, templates(pushes)[0].server)

    def store_prepared(self, jobs: Sequence[Prepared], wait_replicas: int = 0) -> Collection[str]:
        """Store jobs of one server; returns the jids of those that the push guard refused."""
        if not jobs:
            return ()
        sink = test_mode.current()
        if sink is not None:
            sink(jobs)
            return ()
        server = jobs[0].server  # all jobs of a batch have one server
        redis = self.installation.for_server(server).redis if server else self.redis
        deadline = deadline_after(self._limit_seconds(wait_replicas))
        redis.check_server(deadline)
        keys = redis.keys
        also = self._registry.commands(keys, server)
        delivery = Delivery(keys, jobs, wait_replicas, guard=self.config.push_guard, also=also)
        while delivery.commands:
            delivery.take(redis.pipeline(delivery.commands, raise_errors=False, deadline=deadline))
        return delivery.stopped
