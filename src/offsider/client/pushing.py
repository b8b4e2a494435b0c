"""What both clients are: a configuration, the preparer for it, and the way a push waits for a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from offsider.client.prepared import Prepared, declared_of
from offsider.client.preparer import Preparer
from offsider.client.presence import Presence
from offsider.core.errors import InvalidJob
from offsider.core.options import check_known
from offsider.core.payload import JobPayload
from offsider.wiring.config import Config
from offsider.wiring.middleware import ClientChain, Push


class Pushing:
    """The half of a client that does no I/O."""

    def __init__(self, config: Config, middleware: ClientChain | None = None) -> None:
        self.config = config
        self._preparer = Preparer(config, middleware)
        self._presence = Presence(config)

    def build(self, payload: Mapping[str, Any]) -> Push:
        """The push of ``payload`` before client middleware, checked and completed. Nothing is stored."""
        check_push(payload)
        return self._preparer.build(payload)

    def prepare(self, push: Push) -> Prepared | None:
        """Queue resolver, client middleware, strict arguments, bytes. None when middleware stopped the job."""
        return self._preparer.prepare(push)

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """A stored job on its way back to its queue, through client middleware again.

        None when middleware stopped it; InvalidJob when it does not encode; else whatever middleware raises.
        """
        return self._preparer.reenqueue(payload, reason, job=job)

    def _after_commit(
        self, defer: Callable[[Callable[[], None]], None], push: Push, store: Callable[[], object]
    ) -> str:
        """Let ``store`` wait for the commit. The jid is known already, and bad arguments raise now."""
        self._preparer.check_for_later(push)
        jid = push.payload.get("jid", "")

        def when_committed() -> None:
            store()

        defer(when_committed)
        return jid


def check_push(payload: object) -> None:
    """InvalidJob, saying what a push is, when this is none."""
    if not isinstance(payload, Mapping):
        raise InvalidJob(f'a push is a mapping like {{"class": "HardJob", "args": [1]}}, got {payload!r}')


def take_replicas(payload: Mapping[str, Any], wait_replicas: int) -> tuple[Mapping[str, Any], int]:
    """How many replicas to wait for: as asked, else by the payload, else by the declared job. Never stored.

    InvalidJob when what was pushed is no mapping at all.
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
