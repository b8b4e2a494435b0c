"""Events of the worker's lifecycle and about jobs, for handlers of the application and of extensions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

from offsider.config.containers import Freezable
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest
from offsider.runtime.context import JobContext

OnError: TypeAlias = Callable[[BaseException, dict[str, object]], None]
Handler = TypeVar("Handler", bound=Callable[..., Any])

LIFECYCLE = ("startup", "quiet", "shutdown", "exit", "heartbeat", "beat", "fork", "leader")
NEWS = (
    "execution_finished",
    "job_removed",
    "job_reclaimed",
    "job_poisoned",
    "job_stranded",
    "large_payload",
    "lost_ownership",
)
NAMES = LIFECYCLE + NEWS
# Handlers run in reverse order of registration: the last one that started stops first.
REVERSED = frozenset({"quiet", "shutdown", "exit"})


@dataclass(frozen=True)
class ExecutionFinished:
    """A run has ended.

    Attributes:
        job: the context of the run.
        outcome: ``"succeeded"``, ``"failed"``, ``"died"``, ``"rescheduled"``, ``"discarded"``, ``"skipped"`` or
            ``"interrupted"``.
        error: the exception that the job raised, if any.
        queued_seconds: time from the enqueue to the start; None if the payload has no enqueue time.
        duration_seconds: wall-clock time of the run.
        cpu_seconds: CPU time of the run's thread.
    """

    job: JobContext
    outcome: str
    error: BaseException | None
    queued_seconds: float | None
    duration_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class JobRemoved:
    """A stored job was removed without a run: by an operator, a control, another push or its expiry.

    Client middleware can remove a due or retried job, too. A poison pill, and a job that no worker could run for too
    long, move to the dead set without this event; only `Hooks.removal_effects` get it.

    Attributes:
        raw: the stored bytes.
        where: the removed job's place: ``"queue:NAME"``, ``"retry"``, ``"quarantine"`` and so on.
        how: ``"delete"``, ``"clear"``, ``"kill"``, ``"quarantine"``, ``"expire"`` or ``"debounce"``.
        server: the name of its server.
        error: of a job that a worker moves to the dead set; else None.
    """

    raw: bytes
    where: str
    how: str
    server: str
    error: BaseException | None = None


@dataclass(frozen=True)
class JobPlaced:
    """An operator moves a stored job to its queue, back from quarantine, or to another time. See `Hooks.move_effects`.

    Attributes:
        raw: the bytes that are stored from now on.
        to: its place from now on: ``"queue:NAME"``, ``"schedule"``, ``"retry"`` or ``"dead"``.
        at: its score there, in epoch seconds; 0 in a queue.
        server: the name of its server.
    """

    raw: bytes
    to: str
    at: float
    server: str


@dataclass(frozen=True)
class JobReclaimed:
    """A job of the dead process ``identity`` was requeued.

    If the parent of that process requeued the job, a live worker emits the event a few seconds later. A payload larger
    than 16 KB then has no arguments.

    Attributes:
        raw: the stored payload.
        queue: the queue of the job.
        identity: the dead process.
        interrupted_count: as `JobContext.interrupted_count`.
    """

    raw: bytes
    queue: str
    identity: str
    interrupted_count: int


@dataclass(frozen=True)
class JobPoisoned:
    """A job was moved to the dead set, because it crashed several processes.

    Attributes:
        raw: the stored payload.
        queue: the queue from which it was claimed.
        identities: the processes.
    """

    raw: bytes
    queue: str
    identities: tuple[str, ...]


@dataclass(frozen=True)
class JobStranded:
    """No live worker of its queue can run a job, which waits in the schedule. Emitted at each attempt.

    Attributes:
        job: the job, which has not run.
        reason: why it cannot run here.
        delay_seconds: time until the next attempt.
        since: time at which it was stranded, in epoch seconds.
    """

    job: JobContext
    reason: str
    delay_seconds: float
    since: float


@dataclass(frozen=True)
class LargePayload:
    """A job with a large or compressed payload was pushed.

    Attributes:
        name, jid, queue: class name, jid and queue of the job.
        size_bytes: size of the payload before compression.
        stored_bytes: size of the stored payload: less than ``size_bytes`` if the arguments were compressed.
    """

    name: str
    jid: str
    queue: str
    size_bytes: int
    stored_bytes: int


@dataclass(frozen=True)
class LostOwnership:
    """A run ended after another process had reclaimed its job: its outcome was not stored."""

    job: JobContext
    outcome: str


class Events(Freezable):
    """Handlers by name of event.

    Lifecycle handlers take no argument: ``fork`` (in each worker process of ``-p``, before ``startup``),
    ``startup`` (an error aborts the launch), ``quiet``, ``shutdown``, ``exit`` (these three in reverse order),
    ``heartbeat`` (the first heartbeat, and the first after a partition), ``beat`` (each heartbeat), ``leader`` (this
    process has become the leader).
    Job handlers take one argument: `ExecutionFinished`, `JobRemoved`, `JobReclaimed`, `JobPoisoned`,
    `JobStranded`, `LargePayload`, `LostOwnership`.
    An error of a handler is reported to ``on_error``; the other handlers still run.
    """

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self._handlers: dict[str, tuple[Callable[..., Any], ...]] = dict.fromkeys(NAMES, ())
        self._done: set[str] = set()
        self._lock = threading.Lock()

    @overload
    def on(self, name: str, handler: None = None) -> Callable[[Handler], Handler]: ...
    @overload
    def on(self, name: str, handler: Handler) -> Handler: ...
    def on(self, name: str, handler: Callable[..., Any] | None = None) -> Any:
        """Listen to an event: ``events.on("quiet", fn)``, or as a decorator ``@events.on("quiet")``.

        Raises:
            ConfigurationError: the event is unknown, or the worker has been launched.
        """
        _check_name(name)
        if handler is None:
            return partial(self.on, name)
        self.check_open("config.events")
        if not callable(handler):
            raise ConfigurationError(f"the handler of {name!r} must be callable, got {handler!r}")
        with self._lock:
            self._handlers[name] = (*self._handlers[name], handler)
        return handler

    def listened(self, name: str) -> bool:
        """Return whether the event has handlers, so that callers can avoid building an expensive argument."""
        return bool(self._handlers[name])

    def emit(
        self,
        name: str,
        *payload: object,
        once: bool = False,
    ) -> None:
        """Call every handler; for quiet, shutdown and exit the last one first. Raise errors at startup only.

        Args:
            name: name of the event.
            payload: arguments for the handlers.
            once: do nothing if this event was emitted with ``once`` before.
        """
        _check_name(name)
        handlers = self._handlers[name]
        if once and not self._first_time(name):
            return
        if name in REVERSED:
            handlers = handlers[::-1]
        for handler in handlers:
            self._call(handler, name, payload)

    def _first_time(self, name: str) -> bool:
        with self._lock:
            first = name not in self._done
            self._done.add(name)
            return first

    def _call(self, handler: Callable[..., Any], name: str, payload: tuple[object, ...]) -> None:
        try:
            handler(*payload)
        except BaseException as error:  # SystemExit would end a thread of the worker
            if name == "startup":
                raise
            self._on_error(error, {"event": name})


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise ConfigurationError(f"there is no event {name!r}{suggest(name, NAMES)}; events are {', '.join(NAMES)}")
