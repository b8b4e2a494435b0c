"""The client: pushes jobs into Redis."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from offsider.client import bulk
from offsider.client.delivery import Delivery
from offsider.client.prepared import Prepared
from offsider.client.pushing import Pushing, take_replicas
from offsider.storage.redis import Redis
from offsider.wiring import sinks
from offsider.wiring.config import Config
from offsider.wiring.middleware import ClientChain, Push


class Client(Pushing):
    """Pushes jobs into the Redis of one configuration. Made once, shared by all threads.

    Args:
        config: defaults, middleware, strict arguments, and the server.
        redis: the pool to use; default: the one that all clients of the configuration share, opened at the
            first push.
        middleware: a chain in place of the configuration's (a capsule has a copy of its own).
    """

    def __init__(self, config: Config, redis: Redis | None = None, *, middleware: ClientChain | None = None) -> None:
        super().__init__(config, middleware)
        self._redis = redis

    def push(self, payload: Mapping[str, Any], *, wait_replicas: int = 0) -> str | None:
        """Store one job and answer its jid, or None when client middleware or the push guard stopped it.

        ::

            client.push({"class": "HardJob", "args": [1]})                  # a job that lives elsewhere
            client.push({"class": hard_job, "args": [1], "queue": "low"})   # one declared in Python
            client.push({"class": "HardJob", "args": [1], "at": timedelta(minutes=5)})

        Args:
            payload: ``class`` and ``args``, and any of: ``queue``, ``retry`` and the other options, ``jid``,
                ``at`` (seconds or a timedelta from now, an aware datetime, or epoch seconds), keys of your own.
            wait_replicas: wait up to a second until so many replicas have the job.

        With ``config.after_commit`` set, the jid is given now and the push happens in that callback.

        Raises:
            InvalidJob: this cannot become a job (InvalidArguments, InvalidOptions).
            RedisUnavailable: the server could not be reached; ``ambiguous`` when it may have stored the job.
            RedisRefused: the server refused the job; QueueFull when it is out of memory.
            NotReplicated: the job is stored, but not on ``wait_replicas`` replicas. Do not push it again.
        """
        payload, wait_replicas = take_replicas(payload, wait_replicas)
        push = self.build(payload)
        defer = self.config.after_commit
        if defer is None:
            return self.store(push, wait_replicas)
        return self._after_commit(defer, push, lambda: self.store(push, wait_replicas))

    def push_bulk(
        self,
        items: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        spread_interval: float | timedelta | None = None,
        wait_replicas: int = 0,
    ) -> list[str | None]:
        """Store many jobs of one class and answer their jids, one for each, None for those that were stopped.

        ::

            client.push_bulk({"class": "HardJob", "args": [[1], [2], [3]]})
            client.push_bulk({"class": "HardJob", "args": ([n] for n in range(10**6))})    # lazily
            client.push_bulk({"class": "HardJob", "args": [[1], [2]], "at": [60, 120]})

        Args:
            items: as for `push`, but ``args`` holds a list for each job and may be any iterable; ``at`` may be
                one time, or exactly one for each job, from any iterable as well.
            batch_size: jobs in one round trip; default 1,000, or 100 when they are scheduled.
            spread_interval: schedule the jobs at random over so many seconds from now, or a timedelta (5 seconds at
                least).
            wait_replicas: as for `push`, for each batch; NotReplicated then names the last job of the batch.

        Each batch is stored at once, so what was pushed before an error stays. ``after_commit`` does not
        cover bulk pushes.

        Raises:
            InvalidJob, RedisUnavailable, RedisRefused, NotReplicated: as for `push`.
        """
        items, wait_replicas = take_replicas(items, wait_replicas)
        jids: list[str | None] = []
        for batch in bulk.plan(self._preparer, items, batch_size, spread_interval).batches(self._preparer):
            stopped = self._store([job for job in batch if job is not None], wait_replicas)
            jids += [None if job is None or job.jid in stopped else job.jid for job in batch]
        return jids

    @property
    def redis(self) -> Redis:
        """The pool to the server that its configuration works for."""
        return self.config.shared_redis() if self._redis is None else self._redis

    def close(self) -> None:
        """Close the idle connections of its pool and of those to other servers; the client may be used again."""
        self.redis.close()
        self.config.close()

    def store(self, push: Push, wait_replicas: int = 0) -> str | None:
        """Run client middleware on a push from `build` and store it. Does not look at ``after_commit``."""
        prepared = self.prepare(push)
        if prepared is None:
            return None
        stopped = self._store([prepared], wait_replicas)
        return None if stopped else prepared.jid

    def _store(self, jobs: Sequence[Prepared], wait_replicas: int) -> Collection[str]:
        """Answers the jids of those that the push guard has stopped."""
        if not jobs:
            return ()
        sink = sinks.current()
        if sink is not None:
            sink(jobs)
            return ()
        server = jobs[0].server  # the jobs of one class, or only one
        redis = self.config.redis_of(server) if server else self.redis
        keys = redis.keys
        also = self._presence.commands(keys, server)
        delivery = Delivery(keys, jobs, wait_replicas, guard=self.config.push_guard, also=also)
        while delivery.commands:
            delivery.take(redis.pipeline(delivery.commands, raise_errors=False))
        return delivery.stopped
