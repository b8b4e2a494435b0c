"""Middleware: generator functions around a push and around a run, in chains.

An entry of a chain is called with its subject: a `Push` on the client side, a `JobContext` on the server side. The code
before its ``yield`` runs before the inner entries, the code after it when they have ended:

* ``yield`` returns the result of the inner entries, or raises their error.
* Returning before ``yield`` skips them: the push is canceled, or the job does not run.
* A value other than None that is returned after ``yield`` replaces the result. Middleware that catches the error and
  returns ends it.

`MiddlewareChain.enter` enters all entries in a loop, `leave` and `leave_by_error` leave them; tracebacks have no frames
of entries that passed an error on. Around an ``async def`` job another thread may leave them than has entered them, in
the same context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from offsider.config.containers import Freezable
from offsider.core.error_text import trace_of
from offsider.core.errors import ConfigurationError
from offsider.core.payload import JobPayload
from offsider.runtime.context import JobContext

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Reason: TypeAlias = Literal["push", "schedule", "retry"]


@dataclass
class Push:
    """A job that is about to be stored, as client middleware sees it.

    Attributes:
        payload: the payload. Middleware may change or replace it.
        reason: ``"push"`` at the first push; ``"schedule"`` or ``"retry"`` when the job moves from that set to its
            queue. Middleware that stamps or deduplicates acts on ``"push"`` only.
        job: the declaration of the job; None for a job that is not declared here and is pushed by its class name.
        server: the name of the server that stores the job; empty for the client's own server.
    """

    payload: JobPayload
    reason: Reason = "push"
    job: object | None = None
    server: str = ""


Middleware: TypeAlias = Generator[None, Any, Any]
"""The return type of middleware: a generator that yields once."""

ClientMiddleware: TypeAlias = Callable[[Push], Middleware]
"""Runs around a push; ``yield`` returns the push, or None if inner middleware canceled it."""

ServerMiddleware: TypeAlias = Callable[[JobContext], Middleware]
"""Runs around a job; ``yield`` returns its result.

An admission has the same form. The job does not start if it returns an `Outcome` before ``yield``, which returns the
outcome of the run; what it returns after ``yield`` is ignored.
"""


class InvalidMiddleware(ConfigurationError, TypeError):
    """A value was added to a chain that is not a generator function."""


class MiddlewareChain(Freezable, Generic[T]):
    """Middleware in order; the first one is the outermost.

    An entry is a generator function, or an object whose ``__call__`` is one. If the object has a method ``concerns``,
    the chain skips the entry for each subject for which that returns False.

    If an entry of server middleware has the attribute ``thread_bound = True``, it is left in the thread that entered
    it, so ``async def`` jobs that it concerns are refused.

    If an entry of server middleware has the attribute ``sets_context = True``, it also runs in the process of an
    isolated job: it sets context variables, for example. See `sets_context`.

    All threads share the entries: an entry must have no state, or protect it with a lock.
    In `insert_before`, `insert_after`, `remove` and ``in`` an entry is given by itself or by its class.

    Raises:
        InvalidMiddleware: also a TypeError; an entry is not a generator function.
    """

    def __init__(self, entries: Iterable[Callable[[T], Middleware]] = (), *, what: str = "the chain") -> None:
        self._what = what
        self._set([])
        self.add(*entries)

    def __call__(self, entry: Callable[[T], Middleware]) -> Callable[[T], Middleware]:
        """Add an entry at the end, as a decorator: ``@config.server_middleware``."""
        self.add(entry)
        return entry

    def add(self, *entries: Callable[[T], Middleware]) -> None:
        """Add entries at the end, innermost. An entry that the chain already has moves to the end."""
        for entry in entries:
            self._place(entry, lambda: len(self._entries))

    def prepend(self, *entries: Callable[[T], Middleware]) -> None:
        """Add entries at the start, outermost, in the given order. An entry that the chain already has moves."""
        for entry in reversed(entries):
            self._place(entry, lambda: 0)

    def insert_before(self, target: object, entry: Callable[[T], Middleware]) -> None:
        """Add ``entry`` directly around ``target``; ConfigurationError if the chain does not have the target."""
        self._position(target)
        self._place(entry, lambda: self._position(target))

    def insert_after(self, target: object, entry: Callable[[T], Middleware]) -> None:
        """Add ``entry`` directly inside ``target``; ConfigurationError if the chain does not have the target."""
        self._position(target)
        self._place(entry, lambda: self._position(target) + 1)

    def remove(self, target: object) -> None:
        """Remove every entry that is ``target`` or an instance of it. No match is not an error."""
        self.check_open(self._what)
        self._set([entry for entry in self._entries if not _is(entry, target)])

    def clear(self) -> None:
        self.check_open(self._what)
        self._set([])

    def copy(self, *, what: str = "") -> MiddlewareChain[T]:
        """Return a chain with the same entries that is not frozen."""
        return MiddlewareChain(self._entries, what=what or self._what)

    def run(self, subject: T, innermost: Callable[[T], object]) -> Any:
        """Run ``innermost(subject)`` inside all entries; return the result, or raise the error, that leaves them."""
        entered: list[Middleware] = []
        try:
            returned = self.enter(subject, entered)
            result = innermost(subject) if returned is None else returned.value
        except BaseException as raised:  # noqa: BLE001 - the entries get it
            return leave_by_error(entered, caught(raised))
        return leave(entered, result) if entered else result

    def enter(self, subject: T, entered: list[Middleware]) -> StopIteration | None:
        """Enter the entries and add them to ``entered``, also those before one that raises.

        Returns:
            None, or the end of an entry that returned before its ``yield``, with its value.
        """
        for concerns, entry in self._steps:
            if concerns is None or concerns(subject):
                generator = entry(subject)
                try:
                    next(generator)
                except StopIteration as returned:
                    return returned
                entered.append(generator)
        return None

    def __iter__(self) -> Iterator[Callable[[T], Middleware]]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, target: object) -> bool:
        return any(_is(entry, target) for entry in self._entries)

    def __repr__(self) -> str:
        return f"Chain({self._entries!r})"

    def _set(self, entries: list[Callable[[T], Middleware]]) -> None:
        self._entries = entries
        self.is_empty = not entries  # `len` of an object takes each push twenty times as long
        self._steps: list[tuple[Callable[[T], bool] | None, Callable[[T], Middleware]]] = [
            (getattr(entry, "concerns", None), entry) for entry in entries
        ]

    def _place(self, entry: Callable[[T], Middleware], position: Callable[[], int]) -> None:
        self.check_open(self._what)
        check_middleware(entry, self._what)
        self._entries = [other for other in self._entries if other != entry]
        self._entries.insert(position(), entry)
        self._set(self._entries)

    def _position(self, target: object) -> int:
        for index, entry in enumerate(self._entries):
            if _is(entry, target):
                return index
        raise ConfigurationError(f"{self._what} does not contain {target!r}")


ClientChain: TypeAlias = MiddlewareChain[Push]
ServerChain: TypeAlias = MiddlewareChain[JobContext]


def sets_context(entry: F) -> F:
    """Have server middleware run in the process of an isolated job too. A decorator."""
    cast("Any", entry).sets_context = True
    return entry


def thread_bound(chain: ServerChain) -> Sequence[ServerMiddleware]:
    """Return the entries of a chain that have to be left in the thread that entered them."""
    return [entry for entry in chain if getattr(entry, "thread_bound", False)]


def check_coroutine(
    bound: Sequence[ServerMiddleware], job: JobContext, coroutine: Coroutine[Any, Any, Any] | None = None
) -> None:
    """Close the coroutine of a job and raise ConfigurationError if one of these thread-bound entries concerns it."""
    for entry in bound:
        concerns = getattr(entry, "concerns", None)
        if concerns is None or concerns(job):
            if coroutine is not None:
                coroutine.close()
            name = getattr(entry, "__qualname__", type(entry).__qualname__)
            raise ConfigurationError(
                f"the server middleware {name} is bound to its thread (thread_bound), and the async job {job.name} "
                f"runs without one: declare the job with def, or add the middleware only to a capsule whose queues "
                f"have no async jobs"
            )


def leave(entered: list[Middleware], result: Any) -> Any:
    """Resume the entered entries with the result, the innermost one first."""
    while entered:
        generator = entered.pop()
        try:
            generator.send(result)
            _refuse_second_yield(generator)
        except StopIteration as returned:
            if returned.value is not None:
                result = returned.value
        except BaseException as raised:  # noqa: BLE001 - the outer entries get it
            return leave_by_error(entered, caught(raised))
    return result


def leave_by_error(entered: list[Middleware], error: BaseException) -> Any:
    """Raise the error in the entered entries, the innermost one first, until one of them ends it."""
    trace = trace_of(error)
    try:
        while entered:
            generator = entered.pop()
            try:
                generator.throw(error)
                _refuse_second_yield(generator)
            except BaseException as raised:  # noqa: BLE001 - the outer entries get it
                # Python replaces a StopIteration that leaves a generator, except one made by a lambda on CPython 3.14.
                if raised is error or (isinstance(error, StopIteration) and raised.__cause__ is error):
                    BaseException.with_traceback(error, trace)
                elif isinstance(raised, StopIteration):
                    return leave(entered, raised.value)
                else:
                    error = caught(raised)
                    trace = trace_of(error)
        raise error
    finally:
        del error, trace  # a cycle: the traceback has this frame


def caught(error: BaseException) -> BaseException:
    """Remove the frame that caught an error from its traceback."""
    trace = trace_of(error)
    return error if trace is None else BaseException.with_traceback(error, trace.tb_next)


def _refuse_second_yield(generator: Middleware) -> None:
    generator.close()
    raise InvalidMiddleware(f"{_name(generator)} yielded twice: middleware yields once, where the inner entries run")


def _is(entry: object, target: object) -> bool:
    return entry == target or (isinstance(target, type) and type(entry) is target)


def check_middleware(entry: object, what: str) -> None:
    """Raise InvalidMiddleware unless ``entry`` is a generator function, or an object with one as ``__call__``."""
    if isinstance(entry, type):
        raise InvalidMiddleware(f"{what} expects an object, got the class {entry.__name__}: add {entry.__name__}()")
    call: object = getattr(type(entry), "__call__", None)  # noqa: B004 - whether it is a generator function
    if not inspect.isgeneratorfunction(entry) and not inspect.isgeneratorfunction(call):
        raise InvalidMiddleware(
            f"{what} expects a generator function, got {_name(entry)}: write `def middleware(subject): ...` with one "
            f"`yield` where the inner entries run, without async and without @contextmanager"
        )


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or repr(value))
