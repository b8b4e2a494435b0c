"""What both clients are: a configuration, the preparer for it, and the way a push waits for a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from offsider.client.prepared import Prepared
from offsider.client.preparer import Preparer
from offsider.core.payload import JobPayload
from offsider.wiring.config import Config
from offsider.wiring.middleware import ClientChain, Push


class Pushing:
    """The half of a client that does no I/O."""

    def __init__(self, config: Config, middleware: ClientChain | None = None) -> None:
        self.config = config
        self._preparer = Preparer(config, middleware)

    def build(self, payload: Mapping[str, Any]) -> Push:
        """The push of ``payload`` before client middleware, checked and completed. Nothing is stored."""
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

    def _after_commit(self, push: Push, store: Callable[[], object]) -> str:
        """Let ``store`` wait for the commit. The jid is known already, and bad arguments raise now."""
        self._preparer.check_arguments(push)
        jid = push.payload.get("jid", "")

        def when_committed() -> None:
            store()

        if self.config.after_commit is None:  # taken away meanwhile
            when_committed()
        else:
            self.config.after_commit(when_committed)
        return jid


def take_replicas(payload: Mapping[str, Any], wait_replicas: int) -> tuple[Mapping[str, Any], int]:
    """``wait_replicas`` may be given as an option too; it is never stored."""
    if "wait_replicas" not in payload:
        return payload, wait_replicas
    rest = dict(payload)
    return rest, int(rest.pop("wait_replicas")) or wait_replicas
