"""The values a push is made of, and what the client must know of a declared job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from offsider.core.characteristics import Characteristics
from offsider.core.payload import JobPayload
from offsider.wiring.config import Config


class Prepared(NamedTuple):
    """A push that is ready to be stored.

    Attributes:
        payload: the job as it will be read again.
        raw: its bytes.
        queue: where it goes.
        at: epoch seconds at which it is due; None for now.
        guarded: the configuration's push guard stores it.
        server: the name of the server that gets it; empty: the one that the client works for.
    """

    payload: JobPayload
    raw: bytes
    queue: str
    at: float | None
    guarded: bool = False
    server: str = ""

    @property
    def jid(self) -> str:
        return self.payload.get("jid", "")


class DeclaredJob(Protocol):
    """A job declared in Python, seen from below: the floor that declares jobs stands above the client."""

    @property
    def name(self) -> str:
        """The name stored in the payload."""
        ...

    @property
    def characteristics(self) -> Characteristics:
        """What routing rules look at."""
        ...

    @property
    def declared_queue(self) -> str | None:
        """The queue that its declaration names, if any."""
        ...

    @property
    def declared_server(self) -> str:
        """The server that its declaration names; empty without one."""
        ...

    @property
    def wait_replicas(self) -> int:
        """How many replicas its pushes wait for."""
        ...

    @property
    def big_payload(self) -> bool:
        """Whether its payloads may be large."""
        ...

    @property
    def shared_with_ruby(self) -> bool:
        """Whether Ruby runs it too."""
        ...

    def stored_options(self, config: Config) -> Mapping[str, Any]:
        """Its options as the payload holds them. Raises InvalidOptions for those ``config`` does not know."""
        ...

    def origin(self, config: Config) -> Mapping[str, str]:
        """What its payloads say of the program that pushes them."""
        ...

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments in stored form: by position, keyword-only ones by name. Raises InvalidArguments."""
        ...

    def parameter_name(self, position: int) -> str:
        """What the parameter at this position is called."""
        ...


class CallLike(Protocol):
    """The arguments of one job among many: what ``job.call(...)`` gives."""

    @property
    def args(self) -> Sequence[Any]: ...

    @property
    def kwargs(self) -> Mapping[str, Any]: ...


def declared_of(job: object) -> DeclaredJob | None:
    """The declared job behind a job function, a job class, or the declaration itself; None for a name."""
    if isinstance(job, str):
        return None
    declared = getattr(job, "declared", job)
    # Not isinstance: for a Protocol that looks at every attribute, which is slow.
    return cast(DeclaredJob, declared) if hasattr(declared, "stored_options") else None
