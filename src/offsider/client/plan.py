"""Plans pushes: checks them, and finds what they wait for: a commit, the outbox, or the collector of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from offsider.client import bulk
from offsider.client.alike import Pushes
from offsider.client.deferred import Collector, DeferredCallback, StoresPushes, collector
from offsider.client.prepared import declared_of
from offsider.client.preparer import Preparer
from offsider.config import test_mode
from offsider.config.hooks import check_installed
from offsider.config.installation import Installation
from offsider.core.errors import InvalidJob, InvalidOptions
from offsider.core.job_id import JobId
from offsider.core.options import OUTBOX, check_known
from offsider.runtime.middleware import ClientChain, Push

AfterCommit: TypeAlias = Callable[[Callable[[], None]], None]


class PushPlan(NamedTuple):
    """Checked pushes of one job.

    Attributes:
        batches: the pushes, before client middleware.
        hook: what they wait for; None to store them at once.
        wait_replicas: the number of replicas that each batch waits for.
    """

    batches: Iterable[Pushes]
    hook: AfterCommit | Collector | None
    wait_replicas: int


class Planner(Preparer):
    """The part of a client that does no I/O."""

    def __init__(self, installation: Installation, middleware: ClientChain | None) -> None:
        super().__init__(installation, middleware)
        self.installation = installation

    def server_of(self, name: str) -> Installation:
        """Return this server, or the client's own if the name is empty."""
        return self.installation.for_server(name) if name else self.installation

    def build(self, payload: Mapping[str, Any]) -> Push:
        """Check and complete ``payload``, before client middleware. Stores nothing."""
        check_push(payload)
        return self._builder.build(payload)

    def _plan(self, payload: Mapping[str, Any], wait_replicas: int) -> PushPlan:
        payload, wait_replicas = take_replicas(payload, wait_replicas)
        payload, hook = self._take_hook(payload, wait_replicas)
        return PushPlan([[self._builder.build(payload)]], hook, wait_replicas)

    def _plan_bulk(
        self,
        items: Mapping[str, Any],
        batch_size: int | None,
        spread_interval: float | timedelta | None,
        wait_replicas: int,
    ) -> PushPlan:
        items, wait_replicas = take_replicas(items, wait_replicas)
        items, hook = self._take_hook(items, wait_replicas)
        planned = bulk.plan(self, items, batch_size, spread_interval)
        return PushPlan(planned.pushes(self.config.clock.now()), hook, wait_replicas)

    def _take_hook(
        self, payload: Mapping[str, Any], wait_replicas: int
    ) -> tuple[Mapping[str, Any], AfterCommit | Collector | None]:
        """Return the payload without ``after_commit``, and the hook that this push waits for, if any.

        Raises InvalidOptions if it is invalid, or for a push through the outbox without an open session, with
        ``wait_replicas`` or in a collector.
        """
        outbox, block = self.config.outbox, collector()
        if self.config.after_commit is None and outbox is None and block is None and "after_commit" not in payload:
            return payload, None
        job = declared_of(payload.get("class"))
        wanted = None if job is None else job.after_commit
        name = job.name if job else str(payload.get("class"))
        if "after_commit" in payload:
            payload = dict(payload)
            wanted = payload.pop("after_commit")
            check_known({"after_commit": wanted}, job_name=name)
            check_installed({"after_commit": wanted}, outbox, job_name=name)
        waits, boxed = wanted is not False, wanted == OUTBOX
        if outbox is None or not (boxed or (wanted is None and outbox.default)) or test_mode.current():
            return payload, block or (self.config.after_commit if waits else None)
        if block is not None:
            raise InvalidOptions(
                f"{name}: a push of a batch cannot go through the outbox, because "
                "the batch is stored at once: declare the job with @job(after_commit=True), or push it "
                "with job.using(after_commit=True)"
            )
        hook = outbox.hook()
        if hook is None:
            if boxed:
                raise InvalidOptions(
                    f'{name}: after_commit="outbox", but no session of the '
                    "outbox is open here: push inside of `with outbox.session(session):` (in FastAPI, an async def "
                    "dependency or the endpoint itself), or pass after_commit=True to push directly to Redis"
                )
            return payload, self.config.after_commit if waits else None
        if wait_replicas:
            raise InvalidOptions(
                f"{name}: a push through the outbox cannot wait for replicas, "
                "because a worker stores the job later: pass after_commit=True, or no wait_replicas"
            )
        return payload, hook

    def _deferred(self, client: StoresPushes, pushes: Pushes, wait_replicas: int) -> DeferredCallback:
        """Return pushes for later: after the commit, for the outbox or a collector. Invalid arguments raise now."""
        self._check_for_later(pushes)
        deferred = DeferredCallback(client, pushes, wait_replicas)
        if test_mode.current() is not None:
            test_mode.waiting.add(deferred)
        return deferred

    def _job_ids(self, jids: Sequence[str], server: str) -> list[JobId[Any]]:
        """Return the ids of jobs of a server; falsy for a canceled or refused push."""
        installation = self.server_of(server)
        return [JobId.at(installation, jid) for jid in jids]


def check_push(payload: object) -> None:
    """Raise InvalidJob unless ``payload`` is a mapping."""
    if type(payload) is not dict and not isinstance(payload, Mapping):
        raise InvalidJob(
            f'a push must be a mapping like {{"class": "HardJob", "args": [1]}}, got {type(payload).__name__}'
        )


def take_replicas(payload: Mapping[str, Any], wait_replicas: int) -> tuple[Mapping[str, Any], int]:
    """Return the payload without ``wait_replicas``, and its value from the argument, the payload or the declared job.

    Raises InvalidJob if the payload is not a mapping.
    """
    check_push(payload)
    job = declared_of(payload.get("class"))
    if "wait_replicas" in payload:
        rest = dict(payload)
        given = rest.pop("wait_replicas")
        payload, wait_replicas = rest, wait_replicas or given
    elif job is not None:
        wait_replicas = wait_replicas or job.wait_replicas
    if wait_replicas:
        check_known({"wait_replicas": wait_replicas}, job_name=job.name if job else str(payload.get("class")))
    return payload, wait_replicas
