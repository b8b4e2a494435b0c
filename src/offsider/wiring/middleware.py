"""Middleware: callables around a push and around a run, in a chain that is composed once.

Both sides have one shape, ``middleware(subject, call_next)``: the client side gets a `Push`, the server side a
`JobContext`. Whoever does not call ``call_next`` stops the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from offsider.core.errors import ConfigurationError
from offsider.core.payload import JobPayload
from offsider.wiring.context import JobContext
from offsider.wiring.frozen import frozen_error

T = TypeVar("T")
R = TypeVar("R")

Reason: TypeAlias = Literal["push", "schedule", "retry"]


@dataclass
class Push:
    """One job on its way into Redis, as client middleware sees it.

    Attributes:
        payload: may be changed in place, or replaced by passing another Push on.
        reason: ``"push"`` at the first push; ``"schedule"`` or ``"retry"`` when the job moves from that set to its
            queue. Middleware that stamps or deduplicates acts on ``"push"`` only.
        job: what declares the job; None for a job that lives elsewhere and is pushed by its class name.
        server: the name of the server that gets it; empty: the one that the client works for.
    """

    payload: JobPayload
    reason: Reason = "push"
    job: object | None = None
    server: str = ""


ClientMiddleware: TypeAlias = Callable[[Push, Callable[[Push], "Push | None"]], "Push | None"]
"""Return what ``call_next(push)`` answered, or None to stop the push."""

ServerMiddleware: TypeAlias = Callable[[JobContext, Callable[[JobContext], object]], object]
"""Return what ``call_next(job)`` answered. Around an ``async def`` job, that is an awaitable."""


class Chain(Generic[T, R]):
    """Middleware in order; the first one is the outermost.

    Entries are made once and shared by all threads: they must hold no state, or guard it with a lock.
    In `insert_before`, `insert_after`, `remove` and ``in`` an entry is named by itself or by its class.
    """

    def __init__(self, entries: Iterable[Callable[[T, Callable[[T], R]], R]] = (), *, what: str = "the chain") -> None:
        self._entries = list(entries)
        self._gates: list[Callable[[T, Callable[[T], R]], R]] = []
        self._what = what
        self._frozen = False

    def add(self, *entries: Callable[[T, Callable[[T], R]], R]) -> None:
        """Put entries at the end, innermost. One that is there already moves to the end."""
        for entry in entries:
            self._place(entry, lambda: len(self._entries))

    def prepend(self, *entries: Callable[[T, Callable[[T], R]], R]) -> None:
        """Put entries at the start, outermost, the first one first. One that is there already moves."""
        for entry in reversed(entries):
            self._place(entry, lambda: 0)

    def gate(self, *entries: Callable[[T, Callable[[T], R]], R]) -> None:
        """Put entries outside of all others, also of those that are prepended later: they decide whether a job may
        pass at all, before anything begins for it. Of several gates the first one is the outermost.
        """
        for entry in entries:
            _check_entry(entry, self._what)
            self._gates.append(entry)
            self._place(entry, lambda: len(self._gates) - 1)

    def insert_before(self, target: object, entry: Callable[[T, Callable[[T], R]], R]) -> None:
        """Put ``entry`` just outside of ``target``; ConfigurationError when the target is not there."""
        self._position(target)
        self._place(entry, lambda: self._position(target))

    def insert_after(self, target: object, entry: Callable[[T, Callable[[T], R]], R]) -> None:
        """Put ``entry`` just inside of ``target``; ConfigurationError when the target is not there."""
        self._position(target)
        self._place(entry, lambda: self._position(target) + 1)

    def remove(self, target: object) -> None:
        """Take every entry out that is ``target`` or of that class; none is no error."""
        self._check_open()
        self._entries = [entry for entry in self._entries if not _is(entry, target)]

    def clear(self) -> None:
        self._check_open()
        self._entries = []

    def copy(self, *, what: str = "") -> Chain[T, R]:
        """An open chain of the same entries."""
        copied = Chain(self._entries, what=what or self._what)
        copied._gates = list(self._gates)
        return copied

    def split(self) -> tuple[Chain[T, R], Chain[T, R]]:
        """The gates, and all others: for who has something to do between them."""
        gates = Chain([entry for entry in self._entries if entry in self._gates], what=self._what)
        return gates, Chain([entry for entry in self._entries if entry not in self._gates], what=self._what)

    def freeze(self) -> None:
        self._frozen = True

    def compose(self, final: Callable[[T], R]) -> Callable[[T], R]:
        """One callable that runs all entries around ``final``, as the chain is now."""
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
        if self._gates:
            self._entries.sort(key=lambda other: other not in self._gates)

    def _position(self, target: object) -> int:
        for index, entry in enumerate(self._entries):
            if _is(entry, target):
                return index
        raise ConfigurationError(f"{self._what}: {target!r} is not in it")

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
