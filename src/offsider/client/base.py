"""The base class of both clients: prepares pushes, and defers them until a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from offsider.client.client_registry import ClientRegistry
from offsider.client.delivery import WAIT_TIMEOUT_MS
from offsider.client.prepared import Prepared, declared_of
from offsider.client.preparer import Preparer
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import InvalidJob
from offsider.core.options import check_known
from offsider.core.payload import JobPayload
from offsider.runtime.middleware import ClientChain, Push
from offsider.storage.redis import deadline_after

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
        return self._preparer.build(payload)

    def prepare(self, push: Push) -> Prepared | None:
        """Run queue resolver and client middleware, check arguments, and encode. None if middleware stopped the job."""
        return self._preparer.prepare(push)

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """Prepare a stored job for its queue; it passes client middleware again.

        None if middleware stopped it. Raises InvalidJob if it cannot be encoded, and exceptions of middleware.
        """
        return self._preparer.reenqueue(payload, reason, job=job)

    def _take_hook(self, payload: Mapping[str, Any]) -> tuple[Mapping[str, Any], AfterCommit | None]:
        """Return the payload without ``after_commit``, and the hook that this push waits for, if any.

        Raises InvalidOptions if ``after_commit`` is not a bool.
        """
        if self.config.after_commit is None and "after_commit" not in payload:
            return payload, None
        job = declared_of(payload.get("class"))
        waits = True if job is None else job.after_commit
        if "after_commit" in payload:
            rest = dict(payload)
            waits = rest.pop("after_commit")
            check_known({"after_commit": waits}, job_name=job.name if job else str(payload.get("class")))
            payload = rest
        return payload, self.config.after_commit if waits else None

    def _deadline(self, wait_replicas: int) -> float:
        """Return the time until which a push may take, in monotonic seconds."""
        limit = self._timeout_seconds or self.config.client.push_timeout_seconds
        return deadline_after(limit + (WAIT_TIMEOUT_MS / 1000 if wait_replicas else 0))

    def _deferred(self, pushes: Sequence[Push], store: Callable[[], Sequence[str | None]]) -> Deferred:
        """Return pushes for after the commit. Invalid arguments raise immediately."""
        for push in pushes:
            self._preparer.check_for_later(push)
        deferred = Deferred([push.payload.get("jid", "") for push in pushes], store)
        if test_mode.current() is not None:
            test_mode.waiting.add(deferred)
        return deferred


class Deferred:
    """The callback of pushes that wait for a commit.

    Args:
        jids: their ids.
        store: stores them; returns their ids, with None for each job that middleware or the push guard stopped.

    Attributes:
        jids: the ids; once stored, those that ``store`` returned.
    """

    def __init__(self, jids: Sequence[str], store: Callable[[], Sequence[str | None]]) -> None:
        self.jids: Sequence[str | None] = jids
        self._store = store

    def __call__(self) -> None:
        test_mode.waiting.discard(self)
        self.jids = self._store()


def check_push(payload: object) -> None:
    """Raise InvalidJob unless ``payload`` is a mapping."""
    if not isinstance(payload, Mapping):
        raise InvalidJob(f'a push is a mapping like {{"class": "HardJob", "args": [1]}}, got {payload!r}')


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
