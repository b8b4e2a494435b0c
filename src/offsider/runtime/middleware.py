"""Middleware: callables around a push and around a run, in a chain that is composed once.

Middleware of both sides has the signature ``middleware(subject, call_next)``: the subject is a `Push` on the client
side and a `JobContext` on the server side. Middleware that does not call ``call_next`` cancels the push, or ends the
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from offsider.config.containers import frozen_error
from offsider.core.errors import ConfigurationError
from offsider.core.payload import JobPayload
from offsider.runtime.context import JobContext

if TYPE_CHECKING:
    from offsider.core.outcome import Outcome

T = TypeVar("T")
R = TypeVar("R")

Reason: TypeAlias = Literal["push", "schedule", "retry"]


@dataclass
class Push:
    """A job that is about to be stored, as client middleware sees it.

    Attributes:
        payload: the payload. Middleware may change it in place, or pass another Push to ``call_next``.
        reason: ``"push"`` at the first push; ``"schedule"`` or ``"retry"`` when the job moves from that set to its
            queue. Middleware that stamps or deduplicates acts on ``"push"`` only.
        job: the declaration of the job; None for a job that is not declared here and is pushed by its class name.
        server: the name of the server that stores the job; empty for the client's own server.
    """

    payload: JobPayload
    reason: Reason = "push"
    job: object | None = None
    server: str = ""


ClientMiddleware: TypeAlias = Callable[[Push, Callable[[Push], "Push | None"]], "Push | None"]
"""Returns the result of ``call_next(push)``, or None to stop the push."""

ServerMiddleware: TypeAlias = Callable[[JobContext, Callable[[JobContext], object]], object]
"""Returns the result of ``call_next(job)``, which is an awaitable for an ``async def`` job."""

Admission: TypeAlias = Callable[[JobContext, Callable[[JobContext], "Outcome"]], "Outcome"]
"""Decides whether a job runs: returns the result of ``call_next(job)``, or another outcome without calling it."""


class Chain(Generic[T, R]):
    """Middleware in order; the first one is the outermost.

    All threads share the entries: an entry must have no state, or protect it with a lock.
    In `insert_before`, `insert_after`, `remove` and ``in`` an entry is given by itself or by its class.
    """

    def __init__(self, entries: Iterable[Callable[[T, Callable[[T], R]], R]] = (), *, what: str = "the chain") -> None:
        self._entries = list(entries)
        self._what = what
        self._frozen = False

    def add(self, *entries: Callable[[T, Callable[[T], R]], R]) -> None:
        """Add entries at the end, innermost. An entry that the chain already has moves to the end."""
        for entry in entries:
            self._place(entry, lambda: len(self._entries))

    def prepend(self, *entries: Callable[[T, Callable[[T], R]], R]) -> None:
        """Add entries at the start, outermost, in the given order. An entry that the chain already has moves."""
        for entry in reversed(entries):
            self._place(entry, lambda: 0)

    def insert_before(self, target: object, entry: Callable[[T, Callable[[T], R]], R]) -> None:
        """Add ``entry`` directly around ``target``; ConfigurationError if the chain does not have the target."""
        self._position(target)
        self._place(entry, lambda: self._position(target))

    def insert_after(self, target: object, entry: Callable[[T, Callable[[T], R]], R]) -> None:
        """Add ``entry`` directly inside ``target``; ConfigurationError if the chain does not have the target."""
        self._position(target)
        self._place(entry, lambda: self._position(target) + 1)

    def remove(self, target: object) -> None:
        """Remove every entry that is ``target`` or an instance of it. No match is not an error."""
        self._check_open()
        self._entries = [entry for entry in self._entries if not _is(entry, target)]

    def clear(self) -> None:
        self._check_open()
        self._entries = []

    def copy(self, *, what: str = "") -> Chain[T, R]:
        """Return a chain with the same entries that is not frozen."""
        return Chain(self._entries, what=what or self._what)

    def freeze(self) -> None:
        self._frozen = True

    def compose(self, final: Callable[[T], R]) -> Callable[[T], R]:
        """Return one callable that runs the current entries around ``final``."""
        composed = final
        for entry in reversed(self._entries):
            composed = _around(entry, composed)
        return composed

    def __iter__(self) -> Iterator[Callable[[T, Callable[[T], R]], R]]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, target: object) -> bool:
        return any(_is(entry, target) for entry in self._entries)

    def __repr__(self) -> str:
        return f"Chain({self._entries!r})"

    def _place(self, entry: Callable[[T, Callable[[T], R]], R], position: Callable[[], int]) -> None:
        self._check_open()
        _check_entry(entry, self._what)
        self._entries = [other for other in self._entries if other != entry]
        self._entries.insert(position(), entry)

    def _position(self, target: object) -> int:
        for index, entry in enumerate(self._entries):
            if _is(entry, target):
                return index
        raise ConfigurationError(f"{self._what} does not contain {target!r}")

    def _check_open(self) -> None:
        if self._frozen:
            raise frozen_error(self._what)


ClientChain: TypeAlias = Chain[Push, "Push | None"]
ServerChain: TypeAlias = Chain[JobContext, object]


def _around(entry: Callable[[T, Callable[[T], R]], R], call_next: Callable[[T], R]) -> Callable[[T], R]:
    return lambda subject: entry(subject, call_next)


def _is(entry: object, target: object) -> bool:
    return entry == target or (isinstance(target, type) and type(entry) is target)


def _check_entry(entry: Any, what: str) -> None:
    if isinstance(entry, type):
        # Calling the class with (subject, call_next) would make an object and stop the job silently.
        raise ConfigurationError(f"{what} expects an object, got the class {entry.__name__}: add {entry.__name__}()")
    if not callable(entry):
        raise ConfigurationError(f"{what} expects a callable (subject, call_next), got {entry!r}")
