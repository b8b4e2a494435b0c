"""Prepared pushes, and the interfaces of the extension points around a push: effects, the guard and the outbox.

**Effects** are scripts of an extension that run in the script that stores the job. Clients and the outbox run them when
they store it. A job that the push guard refuses has none.

**The guard** lets a script decide on the server whether a job is stored. A client calls the guard of its configuration
after client middleware. For the jobs that the guard takes, the client runs the guard's script instead of LPUSH and
ZADD. The script stores the jobs, except those that it refuses. So the decision and the storing are one atomic step, and
coroutines and bulk pushes need no extra code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from offsider.core.errors import InvalidOptions
from offsider.core.options import OUTBOX
from offsider.runtime.middleware import Push

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.storage.effects import Effect
    from offsider.storage.keys import Keys
    from offsider.storage.scripts import Call


class PushEffects(Protocol):
    """An entry of ``config.push_effects``. Must be thread-safe."""

    def concerns(self, push: Push) -> bool:
        """Return whether pushes with these options may have effects.

        Must be fast: it is called for each push, and for the template of a bulk push, whose arguments are not known.
        """
        ...

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        """Return the effects of one job. Must not change the payload.

        Called after client middleware and the push guard; for a job of the outbox once more when a worker stores it.
        Derive the effects from the payload only. If none of them has arguments, the jobs of a bulk push share those of
        the first (see `Effect.arguments`). The script may run twice for the same jid, because a client repeats a push
        whose reply was lost.

        Args:
            push: a push with the reason ``"push"``.
            at: epoch seconds when the job is due; None for now.
        """
        ...


def effects_of(entries: Sequence[PushEffects], push: Push, at: float | None) -> Sequence[Effect]:
    """Return the effects of one job from all entries."""
    found = [effects for entry in entries if entry.concerns(push) and (effects := entry.effects(push, at))]
    return found[0] if len(found) == 1 else [effect for effects in found for effect in effects]


@dataclass(slots=True)  # each push makes one and reads it: faster than a named tuple
class Prepared:
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


class PushGuard(Protocol):
    """The interface of ``config.push_guard``. Must be thread-safe."""

    def concerns(self, push: Push) -> bool:
        """Return whether the guard may take a push with these options; called before its arguments are known.

        Must be fast, because bulk pushes call it.
        """
        ...

    def take(self, push: Push, at: float | None) -> bool:
        """Return whether the guard's script stores this job. The guard may change the payload here.

        Args:
            push: a push with the reason ``"push"``, after client middleware.
            at: epoch seconds when the job is due; None for now.

        Raises:
            InvalidJob: the options of the job are invalid.
        """
        ...

    def due(self, push: Push, now: float) -> float | None:
        """Return when a push without a time is due, in epoch seconds; None for now.

        Raises:
            InvalidJob: the options of the job are invalid.
        """
        ...

    def call(self, keys: Keys, jobs: Sequence[Prepared]) -> Call:
        """Return the script call that stores the taken jobs.

        They are all for one queue, or all scheduled.

        The script returns nothing if it stored all of them; else a string for each job. It is empty, or starts with a
        zero byte, if the job is stored.
        If the server has not loaded the script yet, the call is sent again with the same jobs.
        """
        ...

    def refused(self, jobs: Sequence[Prepared], reply: Any) -> Sequence[int]:
        """Return the indexes of the jobs that the script refused, from its reply."""
        ...


class Encrypts(Protocol):
    """The interface of ``config.encryption``. Must be thread-safe."""

    def seal(self, push: Push) -> None:
        """Encrypt an argument of a push with the option ``encrypt``. Raises InvalidJob."""
        ...

    def opened(self, payload: JobPayload) -> JobPayload:
        """Return a payload with its arguments decrypted. Raises DecryptionFailed."""
        ...

    def seal_value(self, value: Any, payload: Mapping[str, Any], what: str = "") -> str:
        """Encrypt another value of a job: ``what`` names it."""
        ...

    def is_sealed(self, value: object) -> bool:
        """Return whether a value looks like an encrypted one."""
        ...

    def open_value(self, sealed: object, payload: Mapping[str, Any], what: str = "") -> Any:
        """Decrypt it. Raises DecryptionFailed."""
        ...

    def digest(self, text: str) -> str:
        """Return a digest that does not reveal a short text."""
        ...


class PendingPushes(Protocol):
    """Pushes that a client gives to the outbox; `client.deferred.DeferredCallback` implements it."""

    def prepare(self) -> Sequence[Prepared]:
        """Run client middleware and return each push that it did not cancel, with its server.

        A second call returns the same jobs.
        """
        ...


class OutboxWriter(Protocol):
    """The interface of ``config.outbox``. Must be thread-safe.

    Attributes:
        default: whether it takes the pushes of jobs without the option ``after_commit``.
    """

    @property
    def default(self) -> bool: ...

    def hook(self) -> Callable[[Any], None] | None:
        """Return the function that takes `PendingPushes` and writes their rows; None if no transaction can:
        then a push with ``after_commit="outbox"`` is an error, and others bypass the outbox.
        """
        ...


def check_installed(options: Mapping[str, Any], outbox: OutboxWriter | None, *, job_name: str) -> None:
    """Raise InvalidOptions for ``after_commit="outbox"`` without an outbox."""
    if options.get("after_commit") == OUTBOX and outbox is None:
        raise InvalidOptions(
            f'{job_name}: after_commit="outbox" needs an outbox: set OFFSIDER["outbox"] = True in the settings of '
            "Django; elsewhere call config.use(SQLAlchemyOutbox(...)), imported from "
            "offsider.integrations.sqlalchemy_outbox, in a function with @configure_client"
        )
