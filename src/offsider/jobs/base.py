"""``Job``: a class becomes a job, for those who want hooks and state per run."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast

from offsider.core.errors import InvalidJob
from offsider.core.options import JobDeclaration, JobOptions
from offsider.core.payload import JobPayload
from offsider.jobs import registry
from offsider.jobs.call import Call
from offsider.jobs.clients import ClientSource
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Delay, Due, Enqueuer, Moment
from offsider.wiring.context import JobContext, current_job
from offsider.wiring.nearest import nearest

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_OWN = ("name", "aliases")  # not handed down to subclasses: each job has names of its own
_HOOKS = ("retry_in", "on_exhausted")


class Performs(Protocol[P, R_co]):
    """A class with ``perform``: what lends its signature to ``enqueue`` and the others."""

    def perform(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Job:
    """Base of jobs that are classes; a new object is made for each run.

    ::

        class Resize(Job, queue="low", retry=5):
            def perform(self, path: str, width: int = 100) -> None:
                log.info("%s runs for the %d. time", self.jid, self.job.attempt)

            def retry_in(self, count, error, payload):
                return 60 * (count + 1)

        Resize.enqueue("a.png", width=200)

    ``perform`` may be ``async def``. Options stand in the class line and are handed down to subclasses; a class
    without ``perform`` is no job, but may carry options for those below it. ``retry_in`` and ``on_exhausted``
    may be overridden.

    Raises (by the class statement):
        InvalidOptions: another job has this name; keyword-only parameters with ``shared_with_ruby``.
        InvalidJob: ``perform`` is a generator, whose body no worker would run; or it is misspelt.
    """

    declared: ClassVar[Declared]
    _declaration: ClassVar[JobDeclaration] = {}
    _context: JobContext | None = None

    def __init_subclass__(cls, **declaration: Unpack[JobDeclaration]) -> None:
        super().__init_subclass__()
        overridden = {*_OWN, *(hook for hook in _HOOKS if hook in cls.__dict__)}
        inherited = {key: value for key, value in cls._declaration.items() if key not in overridden}
        cls._declaration = cast(JobDeclaration, {**inherited, **declaration})
        perform = getattr(cls, "perform", None)
        if perform is not None:
            cls.declared = Declared(cls, perform, _with_hooks(cls, cls._declaration), cls._make)
            registry.register(cls.declared)
        else:
            _refuse_misspelt(cls)
            registry.note_base(cls)

    @property
    def job(self) -> JobContext:
        """The run: payload, attempt, tags, ``stopping``. Raises NoCurrentJob outside of one."""
        return self._context or current_job()

    @property
    def jid(self) -> str:
        """The id of the job that runs. Raises NoCurrentJob outside of one."""
        return self.job.jid

    # Parameters of hooks that are there to be overridden go unused here.
    def retry_in(
        self,
        count: int,  # noqa: ARG002
        error: BaseException,  # noqa: ARG002
        payload: JobPayload,  # noqa: ARG002
    ) -> float | timedelta | Literal["kill", "discard"] | None:
        """Override it to choose the time until the next run.

        Answer seconds or a timedelta, ``"kill"`` for the dead set, ``"discard"`` to drop the job, or None for the
        default formula. ``count`` is 0 at the first failure.
        """
        return None

    def on_exhausted(
        self,
        payload: JobPayload,  # noqa: ARG002
        error: BaseException,  # noqa: ARG002
    ) -> Literal["discard"] | None:
        """Override it to learn that the retries are used up; answer ``"discard"`` to avoid the dead set."""
        return None

    @classmethod
    def _make(cls, context: JobContext | None) -> Job:
        made = cls()
        made._context = context
        return made

    # Options first

    @classmethod
    def using(cls: type[Performs[P, R_co]], **options: Unpack[JobOptions]) -> Enqueuer[P, R_co]:
        """The job with options for the pushes that follow; they win over the declared ones."""
        return _enqueuer(cls).using(**options)

    @classmethod
    def via(cls: type[Performs[P, R_co]], client: ClientSource) -> Enqueuer[P, R_co]:
        """The job, pushed by this client: to another server, for instance."""
        return _enqueuer(cls).via(client)

    # Now, later, many: as documented in Enqueuer

    @classmethod
    def enqueue(cls: type[Performs[P, R_co]], *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Store the job to run as soon as a worker is free, and answer its jid. See `Enqueuer`."""
        return _enqueuer(cls).enqueue(*args, **kwargs)

    @classmethod
    def enqueue_in(cls: type[Performs[P, R_co]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Store the job to run after ``delay``, seconds or a timedelta. See `Enqueuer`."""
        return _enqueuer(cls).enqueue_in(delay, *args, **kwargs)

    @classmethod
    def enqueue_at(cls: type[Performs[P, R_co]], when: Moment, /, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Store the job to run at ``when``, an aware datetime or epoch seconds. See `Enqueuer`."""
        return _enqueuer(cls).enqueue_at(when, *args, **kwargs)

    @classmethod
    def enqueue_many(
        cls: type[Performs[P, R_co]],
        calls: Iterable[Call[P] | Sequence[Any]],
        *,
        at: Due | None = None,
        spread_interval: float | timedelta | None = None,
        batch_size: int | None = None,
    ) -> list[str | None]:
        """Store many jobs in few round trips and answer their jids. See `Enqueuer`."""
        return _enqueuer(cls).enqueue_many(calls, at=at, spread_interval=spread_interval, batch_size=batch_size)

    @classmethod
    def call(cls: type[Performs[P, R_co]], *args: P.args, **kwargs: P.kwargs) -> Call[P]:
        """One call for `enqueue_many`. Raises InvalidArguments when the arguments do not fit."""
        return _enqueuer(cls).call(*args, **kwargs)

    @classmethod
    def run_inline(cls: type[Performs[P, R_co]], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the job here and now, without Redis, through JSON and middleware. See `Enqueuer`."""
        return _enqueuer(cls).run_inline(*args, **kwargs)

    # The same for code on an event loop

    @classmethod
    async def aenqueue(cls: type[Performs[P, R_co]], *args: P.args, **kwargs: P.kwargs) -> str | None:
        """As `enqueue`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue(*args, **kwargs)

    @classmethod
    async def aenqueue_in(
        cls: type[Performs[P, R_co]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """As `enqueue_in`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue_in(delay, *args, **kwargs)

    @classmethod
    async def aenqueue_at(
        cls: type[Performs[P, R_co]], when: Moment, /, *args: P.args, **kwargs: P.kwargs
    ) -> str | None:
        """As `enqueue_at`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue_at(when, *args, **kwargs)

    @classmethod
    async def aenqueue_many(
        cls: type[Performs[P, R_co]],
        calls: Iterable[Call[P] | Sequence[Any]],
        *,
        at: Due | None = None,
        spread_interval: float | timedelta | None = None,
        batch_size: int | None = None,
    ) -> list[str | None]:
        """As `enqueue_many`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue_many(calls, at=at, spread_interval=spread_interval, batch_size=batch_size)

    # Sidekiq's names

    perform_async = enqueue
    perform_in = enqueue_in
    perform_at = enqueue_at
    perform_bulk = enqueue_many
    perform_inline = run_inline
    perform_sync = run_inline
    set = using


def _enqueuer(cls: type[Performs[P, R_co]]) -> Enqueuer[P, R_co]:
    declared = getattr(cls, "declared", None)
    if declared is None:
        raise InvalidJob(f"{cls.__module__}.{cls.__qualname__} has no method perform, so it is no job")
    return Enqueuer(declared)


def _refuse_misspelt(cls: type[Job]) -> None:
    for name, value in cls.__dict__.items():
        if inspect.isfunction(value) and not name.startswith("_") and nearest(name, ("perform",), cutoff=0.85):
            raise InvalidJob(
                f"{cls.__module__}.{cls.__qualname__} has a method {name} and no perform; if it is what the job runs, "
                "call it perform; if this is a base of jobs, give it a less similar name"
            )


def _with_hooks(cls: type[Job], declaration: JobDeclaration) -> JobDeclaration:
    """The declaration with the class's own ``retry_in`` and ``on_exhausted``, each called on a new object."""

    def retry_in(
        count: int, error: BaseException, payload: JobPayload
    ) -> float | timedelta | Literal["kill", "discard"] | None:
        return cls._make(None).retry_in(count, error, payload)

    def on_exhausted(payload: JobPayload, error: BaseException) -> object:
        return cls._make(None).on_exhausted(payload, error)

    hooked = JobDeclaration(**declaration)
    if "retry_in" not in declaration and cls.retry_in is not Job.retry_in:
        hooked["retry_in"] = retry_in
    if "on_exhausted" not in declaration and cls.on_exhausted is not Job.on_exhausted:
        hooked["on_exhausted"] = on_exhausted
    return hooked
