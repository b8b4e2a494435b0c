"""Prepared pushes, and the interface of declared jobs that clients use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast, overload

from offsider.config.config import Config
from offsider.core.characteristics import Characteristics
from offsider.core.payload import JobPayload
from offsider.storage.effects import Effect


class Prepared(NamedTuple):
    """A push that is ready to be stored.

    Attributes:
        payload: the job as a worker will decode it.
        raw: the bytes of the payload.
        queue: its queue.
        at: due time in epoch seconds; None for now.
        guarded: the configuration's push guard stores it.
        server: name of its server; empty for the server of the client.
        effects: scripts of extensions that run when it is stored.
    """

    payload: JobPayload
    raw: bytes
    queue: str
    at: float | None
    guarded: bool = False
    server: str = ""
    effects: Sequence[Effect] = ()

    @property
    def by_script(self) -> bool:
        """Whether a script stores the job."""
        return self.guarded or bool(self.effects)

    @property
    def jid(self) -> str:
        """The ID of the job; empty if it has none."""
        return self.payload.get("jid", "")


class PreparedAlike(Sequence[Prepared]):
    """Jobs of a bulk push that share all but arguments and jid, ready to be stored in one queue.

    Making one takes as long as encoding it, so code that needs only ``raws`` does not iterate.

    Attributes:
        template: the payload that they share.
        queue, server, effects: as in `Prepared`, of all of them.
        raws, calls, jids: the bytes of the payload, the arguments and the id of each.
    """

    def __init__(
        self,
        template: JobPayload,
        raws: Sequence[bytes],
        calls: Sequence[list[Any]],
        jids: Sequence[str],
        *,
        server: str,
    ) -> None:
        self.template = template
        self.queue = template.get("queue", "default")
        self.server = server
        self.raws = raws
        self.calls = calls
        self.jids = jids
        self.effects: Sequence[Effect] = ()

    def __len__(self) -> int:
        return len(self.raws)

    @overload
    def __getitem__(self, index: int) -> Prepared: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prepared]: ...
    def __getitem__(self, index: int | slice) -> Prepared | Sequence[Prepared]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        payload = filled(self.template, self.calls[index], self.jids[index])
        return Prepared(payload, self.raws[index], self.queue, None, server=self.server, effects=self.effects)


def passed(batch: Sequence[Prepared | None]) -> Sequence[Prepared]:
    """Return the jobs of a batch that middleware has not canceled."""
    return batch if isinstance(batch, PreparedAlike) else [job for job in batch if job is not None]


def stored_jids(batch: Sequence[Prepared | None], stopped: Collection[str] = ()) -> Sequence[str]:
    """Return the id of each job of a batch; empty for those that middleware canceled or the push guard refused."""
    if isinstance(batch, PreparedAlike) and not stopped:
        return batch.jids
    return ["" if job is None or (stopped and job.jid in stopped) else job.jid for job in batch]


def filled(template: JobPayload, args: list[Any], jid: str) -> JobPayload:
    """Return the payload of a job that shares all keys but these two with others."""
    return cast(JobPayload, {**template, "args": args, "jid": jid})


class DeclaredJob(Protocol):
    """The interface of a job declared in Python. The layer of declarations is above the client."""

    @property
    def name(self) -> str:
        """The name stored in the payload."""
        ...

    @property
    def characteristics(self) -> Characteristics:
        """The characteristics that routing rules match."""
        ...

    @property
    def declared_queue(self) -> str | None:
        """The declared queue, if any."""
        ...

    @property
    def declared_retry_queue(self) -> str:
        """The declared queue for retries; empty without one."""
        ...

    @property
    def declared_server(self) -> str:
        """The declared server; empty without one."""
        ...

    @property
    def wait_replicas(self) -> int:
        """The number of replicas that its pushes wait for."""
        ...

    @property
    def after_commit(self) -> bool | str | None:
        """Whether its pushes wait for a commit, or go through the outbox; None for the default."""
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
        """Return its options in stored form. Raises InvalidOptions for options unknown to ``config``."""
        ...

    def origin(self, config: Config) -> Mapping[str, str]:
        """Return the payload keys that identify the program that pushes it."""
        ...

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in stored form: a list, and keyword-only ones by name. Raises InvalidArguments."""
        ...

    def fits(self, fewest: int, most: int) -> bool:
        """Return whether so many positional arguments, without keyword arguments, are stored as they are."""
        ...

    def parameter_name(self, position: int) -> str:
        """Return the name of the parameter at this position."""
        ...


class CallLike(Protocol):
    """The arguments of one job of a bulk push, as ``job.call(...)`` returns them."""

    @property
    def args(self) -> Sequence[Any]: ...

    @property
    def kwargs(self) -> Mapping[str, Any]: ...


def declared_of(job: object) -> DeclaredJob | None:
    """Return the declaration of a job function, a job class, or a declaration itself; None for a name."""
    if isinstance(job, str):
        return None
    declared: Any = getattr(job, "declared", job)
    # Not isinstance: for a Protocol it checks every attribute, which is slow.
    return declared if hasattr(declared, "stored_options") else None
