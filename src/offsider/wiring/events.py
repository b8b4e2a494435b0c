"""Events: moments of a worker's life, and news about jobs, to which anybody may listen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

from offsider.core.errors import ConfigurationError
from offsider.wiring.context import JobContext
from offsider.wiring.frozen import frozen_error
from offsider.wiring.nearest import suggest

OnError: TypeAlias = Callable[[BaseException, dict[str, object]], None]
Handler = TypeVar("Handler", bound=Callable[..., Any])

LIFECYCLE = ("startup", "quiet", "shutdown", "exit", "heartbeat", "beat", "fork", "leader")
NEWS = (
    "execution_finished",
    "job_removed",
    "job_reclaimed",
    "job_poisoned",
    "job_parked",
    "job_moving",
    "job_moved",
    "large_payload",
    "lost_ownership",
)
NAMES = LIFECYCLE + NEWS
# Whoever came up last goes down first.
REVERSED = frozenset({"quiet", "shutdown", "exit"})


@dataclass(frozen=True)
class ExecutionFinished:
    """A run has ended and its outcome is known.

    Attributes:
        job: the run.
        outcome: ``"succeeded"``, ``"failed"``, ``"died"``, ``"rescheduled"``, ``"discarded"``, ``"skipped"`` or
            ``"interrupted"``.
        error: what the job raised, if anything.
        queued_seconds: from enqueued to started; None when the payload does not tell.
        duration_seconds: of the run, by the clock on the wall.
        cpu_seconds: of the run's thread.
    """

    job: JobContext
    outcome: str
    error: BaseException | None
    queued_seconds: float | None
    duration_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class JobRemoved:
    """A stored job left its place by hand, or a switch dropped it.

    Attributes:
        raw: its bytes.
        where: its place: ``"queue:NAME"``, ``"retry"``, ``"quarantine"`` and so on.
        how: ``"delete"``, ``"clear"``, ``"kill"`` or ``"quarantine"``.
        server: the name of the server that it was on.
    """

    raw: bytes
    where: str
    how: str
    server: str


@dataclass(frozen=True)
class JobReclaimed:
    """A worker put a job of the dead process ``identity`` back in its queue. What a keeper gives back is not told."""

    raw: bytes
    queue: str
    identity: str
    interrupted_count: int


@dataclass(frozen=True)
class JobPoisoned:
    """A job is in the dead set, because the processes ``identities`` died of it. ``raw`` is what was stored."""

    raw: bytes
    queue: str
    identities: tuple[str, ...]


@dataclass(frozen=True)
class JobParked:
    """No live worker of its queue can run a job: it waits in the schedule for one that can, and is tried now and then.

    Attributes:
        job: the job, which has not begun to run.
        reason: why it cannot run here.
        delay_seconds: when it is tried again.
        parked_count: how often it was tried so far.
    """

    job: JobContext
    reason: str
    delay_seconds: float
    parked_count: int


@dataclass(frozen=True)
class JobMoving:
    """A stored job is about to move to another queue, perhaps on another server.

    Attributes:
        payload: as it is stored.
        changes: the texts at its keys that will be others, ``queue`` among them; a listener may add some.
        from_server, to_server: names of servers.
    """

    payload: Mapping[str, Any]
    changes: dict[str, str]
    from_server: str
    to_server: str


@dataclass(frozen=True)
class JobMoved:
    """What was about to move has moved; or not, when somebody else took it just before."""

    moving: JobMoving
    moved: bool


@dataclass(frozen=True)
class LargePayload:
    """A job was pushed whose payload is large, or was compressed for it.

    Attributes:
        name, jid, queue: of the job.
        size_bytes: of its payload as it was pushed.
        stored_bytes: of what Redis holds: less, when the arguments were compressed.
    """

    name: str
    jid: str
    queue: str
    size_bytes: int
    stored_bytes: int


@dataclass(frozen=True)
class LostOwnership:
    """A run ended after its job had been reclaimed by others: its outcome was not written."""

    job: JobContext
    outcome: str


class Events:
    """Handlers by name of event.

    Lifecycle handlers take no argument: ``fork`` (in each process that a supervisor has forked, before ``startup``),
    ``startup`` (an error aborts the launch), ``quiet``, ``shutdown``, ``exit``
    (these three in reverse order), ``heartbeat`` (the first beat, and the first after a partition), ``beat``,
    ``leader`` (this process has become the one that leads).
    News handlers take one: `ExecutionFinished`, `JobRemoved`, `JobReclaimed`, `JobPoisoned`,
    `JobParked`, `JobMoving`, `JobMoved`, `LargePayload`,
    `LostOwnership`.
    A failing handler is reported to ``on_error`` and does not stop the others.
    """

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self._handlers: dict[str, tuple[Callable[..., Any], ...]] = dict.fromkeys(NAMES, ())
        self._done: set[str] = set()
        self._lock = threading.Lock()
        self._frozen = False

    @overload
    def on(self, name: str, handler: None = None) -> Callable[[Handler], Handler]: ...
    @overload
    def on(self, name: str, handler: Handler) -> Handler: ...
    def on(self, name: str, handler: Callable[..., Any] | None = None) -> Any:
        """Listen to an event: ``events.on("quiet", fn)``, or as a decorator ``@events.on("quiet")``.

        Raises:
            ConfigurationError: there is no such event, or the worker has been launched.
        """
        _check_name(name)
        if handler is None:
            return partial(self.on, name)
        if self._frozen:
            raise frozen_error("config.events")
        if not callable(handler):
            raise ConfigurationError(f"the handler of {name!r} must be callable, got {handler!r}")
        with self._lock:
            self._handlers[name] = (*self._handlers[name], handler)
        return handler

    def listened(self, name: str) -> bool:
        """Whether anybody listens, for those who would build an expensive argument in vain."""
        return bool(self._handlers[name])

    def emit(
        self,
        name: str,
        *payload: object,
        reverse: bool | None = None,
        reraise: bool | None = None,
        once: bool = False,
    ) -> None:
        """Call every handler of the event.

        Args:
            name: of the event.
            payload: passed to the handlers.
            reverse: last handler first; by default for quiet, shutdown and exit.
            reraise: raise a handler's error at once; by default for startup.
            once: do nothing when this event was emitted with ``once`` before.
        """
        _check_name(name)
        handlers = self._handlers[name]
        if once and not self._first_time(name):
            return
        if name in REVERSED if reverse is None else reverse:
            handlers = handlers[::-1]
        raises = name == "startup" if reraise is None else reraise
        for handler in handlers:
            self._call(handler, name, payload, reraise=raises)

    def freeze(self) -> None:
        self._frozen = True

    def _first_time(self, name: str) -> bool:
        with self._lock:
            first = name not in self._done
            self._done.add(name)
            return first

    def _call(self, handler: Callable[..., Any], name: str, payload: tuple[object, ...], *, reraise: bool) -> None:
        try:
            handler(*payload)
        except Exception as error:
            if reraise:
                raise
            self._on_error(error, {"event": name})


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise ConfigurationError(f"there is no event {name!r}{suggest(name, NAMES)}; events are {', '.join(NAMES)}")
