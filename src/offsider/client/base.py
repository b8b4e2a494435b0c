"""The base class of both clients: prepares pushes, and defers them until a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from offsider.client.alike import Pushes
from offsider.client.client_registry import ClientRegistry
from offsider.client.collecting import Collector, collector
from offsider.client.deferred import DeferredCallback, StoresPushes
from offsider.client.delivery import WAIT_TIMEOUT_MS
from offsider.client.prepared import Prepared, declared_of
from offsider.client.preparer import Preparer
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.hooks import check_installed
from offsider.config.installation import Installation
from offsider.core.errors import InvalidJob, InvalidOptions
from offsider.core.job_id import JobId
from offsider.core.options import OUTBOX, check_known
from offsider.core.payload import JobPayload
from offsider.runtime.middleware import ClientChain, Push

AfterCommit: TypeAlias = Callable[[Callable[[], None]], None]


class BaseClient:
    """The part of a client that does no I/O.

    Attributes:
        installation: the server that the client pushes to, with its connections.
        config: the configuration of the client.
    """

    def __init__(
        self, config: Config | Installation, middleware: ClientChain | None, timeout_seconds: float | None
    ) -> None:
        self.installation = Installation.of(config)
        self.config = self.installation.config
        self._timeout_seconds = timeout_seconds
        self._preparer = Preparer(self.installation, middleware)
        self._registry = ClientRegistry(self.config)

    def build(self, payload: Mapping[str, Any]) -> Push:
        """Check and complete ``payload``, before client middleware. Stores nothing."""
        check_push(payload)
        return self._preparer.builder.build(payload)

    def prepare(self, push: Push) -> Prepared | None:
        """Run queue resolver and client middleware, check arguments, and encode. None for a canceled push."""
        return self._preparer.prepare(push)

    def prepare_all(self, pushes: Pushes) -> Sequence[Prepared | None]:
        """As `prepare`, for several pushes; faster if they are alike."""
        return self._preparer.prepare_all(pushes)

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """Prepare a stored job for its queue; it passes client middleware again.

        None if middleware canceled the push. Raises InvalidJob if it cannot be encoded, and exceptions of middleware.
        """
        return self._preparer.reenqueue(payload, reason, job=job)

    def _job_ids(self, jids: Iterable[str], server: str) -> list[JobId[Any]]:
        """Return the ids of jobs of this server, or of the client's own; falsy for a canceled or refused push."""
        there = self._there(server)
        return [JobId.at(there, jid) for jid in jids]

    def _there(self, server: str) -> Installation:
        """Return this server, or the client's own if the name is empty."""
        return self.installation.for_server(server) if server else self.installation

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
        if "after_commit" in payload:
            payload = dict(payload)
            wanted = payload.pop("after_commit")
            name = job.name if job else str(payload.get("class"))
            check_known({"after_commit": wanted}, job_name=name)
            check_installed({"after_commit": wanted}, outbox, job_name=name)
        waits, boxed = wanted is not False, wanted == OUTBOX
        if outbox is None or not (boxed or (wanted is None and outbox.default)) or test_mode.current():
            return payload, block or (self.config.after_commit if waits else None)
        if block is not None:
            raise InvalidOptions(
                f"{job.name if job else payload.get('class')}: a push of a batch cannot go through the outbox, because "
                "the batch is stored at once: declare the job with @job(after_commit=True), or push it "
                "with job.using(after_commit=True)"
            )
        hook = outbox.hook()
        if hook is None:
            if boxed:
                raise InvalidOptions(
                    f'{job.name if job else payload.get("class")}: after_commit="outbox", but no session of the '
                    "outbox is open here: push inside of `with outbox.session(session):` (in FastAPI, an async def "
                    "dependency or the endpoint itself), or pass after_commit=True to push directly to Redis"
                )
            return payload, self.config.after_commit if waits else None
        if wait_replicas:
            raise InvalidOptions(
                f"{job.name if job else payload.get('class')}: a push through the outbox cannot wait for replicas, "
                "because a worker stores the job later: pass after_commit=True, or no wait_replicas"
            )
        return payload, hook

    def _limit_seconds(self, wait_replicas: int) -> float:
        """Return the duration that a push may take."""
        limit = self._timeout_seconds or self.config.client.push_timeout_seconds
        return limit + (WAIT_TIMEOUT_MS / 1000 if wait_replicas else 0)

    def _deferred(self, client: StoresPushes, pushes: Pushes, wait_replicas: int) -> DeferredCallback:
        """Return pushes for later: after the commit, for the outbox or a collector. Invalid arguments raise now."""
        self._preparer.check_for_later(pushes)
        deferred = DeferredCallback(client, pushes, wait_replicas)
        if test_mode.current() is not None:
            test_mode.waiting.add(deferred)
        return deferred


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
        said = rest.pop("wait_replicas")
        payload, wait_replicas = rest, wait_replicas or said
    elif job is not None:
        wait_replicas = wait_replicas or job.wait_replicas
    if wait_replicas:
        check_known({"wait_replicas": wait_replicas}, job_name=job.name if job else str(payload.get("class")))
    return payload, wait_replicas
