"""``Job``: jobs as classes, with hooks and state per run."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar, Unpack, cast, overload

from offsider.core.errors import InvalidJob
from offsider.core.job_id import JobId
from offsider.core.options import JobDeclaration, JobOptions
from offsider.core.payload import JobPayload
from offsider.core.suggestions import nearest
from offsider.jobs import registry
from offsider.jobs.call import BulkOptions, Call, Delay, Jids, Performs
from offsider.jobs.clients import ClientSource
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer, Moment, checks_tuples, checks_tuples_async
from offsider.runtime.context import JobContext, current_job

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

_OWN = ("name", "aliases")  # not inherited: each job has its own names
_HOOKS = ("retry_in", "on_exhausted")


class Job:
    """Base class of jobs; each run creates an object.

    ::

        class Resize(Job, queue="low", retry=5):
            def perform(self, path: str, width: int = 100) -> None:
                log.info("%s runs for the %d. time", self.jid, self.job.attempt)

            def retry_in(self, count, error, payload):
                return 60 * (count + 1)

        Resize.enqueue("a.png", width=200)

    ``perform`` may be ``async def``. Subclasses inherit the options of the class statement. A class without
    ``perform`` is not a job, but can define options for its subclasses. ``retry_in`` and ``on_exhausted`` may be
    overridden.

    Attributes:
        declared: the declaration of the job.
        perform_async, perform_in, perform_at: Sidekiq's names of `enqueue`, `enqueue_in` and `enqueue_at`.
        perform_bulk: Sidekiq's name of `enqueue_many`.
        perform_inline, perform_sync: Sidekiq's names of `run_inline`.
        set: Sidekiq's name of `using`.

    Raises (by the class statement):
        InvalidOptions: another job has this name; keyword-only parameters with ``shared_with_ruby``.
        InvalidJob: ``perform`` is a generator, whose body no worker would run; or it is misspelled.
    """

    declared: ClassVar[Declared]
    _declaration: ClassVar[JobDeclaration] = {}
    _context: JobContext | None = None

    def __init_subclass__(cls, **declaration: Unpack[JobDeclaration]) -> None:
        super().__init_subclass__()
        overridden = {*_OWN, *(hook for hook in _HOOKS if hook in cls.__dict__)}
        inherited = {key: value for key, value in cls._declaration.items() if key not in overridden}
        cls._declaration = cast(JobDeclaration, {**inherited, **declaration})
        perform: Any = getattr(cls, "perform", None)
        if perform is not None and not getattr(perform, "__isabstractmethod__", False):
            static = inspect.getattr_static(cls, "perform")
            kind = type(static).__name__
            if isinstance(static, staticmethod | classmethod) or not callable(perform):
                raise InvalidJob(
                    f"{cls.__module__}.{cls.__qualname__}: perform must be a method: def perform(self, ...), "
                    f"got a {kind}"
                )
            cls.declared = Declared(cls, perform, _with_hooks(cls, cls._declaration), cls._make)
            registry.register(cls.declared)
        else:
            _refuse_misspelt(cls)
            registry.note_base(cls)

    @property
    def job(self) -> JobContext:
        """The current run: payload, attempt, tags, ``stopping``. Raises NoCurrentJob outside a run."""
        return self._context or current_job()

    @property
    def jid(self) -> str:
        """The id of the running job. Raises NoCurrentJob outside a run."""
        return self.job.jid

    # Hooks to override: their parameters are unused here.
    def retry_in(
        self,
        count: int,  # noqa: ARG002
        error: BaseException,  # noqa: ARG002
        payload: JobPayload,  # noqa: ARG002
    ) -> float | timedelta | Literal["kill", "discard"] | None:
        """Override it to choose the delay until the next attempt.

        Return seconds, to which jitter is added; a timedelta for an exact delay; ``"kill"`` for the dead set;
        ``"discard"`` to discard the job; or None for the default formula. ``count`` is 0 at the first failure.
        """
        return None

    def on_exhausted(
        self,
        payload: JobPayload,  # noqa: ARG002
        error: BaseException,  # noqa: ARG002
    ) -> Literal["discard"] | None:
        """Override it to run code after the last retry; return ``"discard"`` to avoid the dead set."""
        return None

    @classmethod
    def _make(cls, context: JobContext | None) -> Job:
        made = cls()
        made._context = context
        return made

    # Options first

    @classmethod
    def using(cls: type[Performs[P, R_co]], **options: Unpack[JobOptions]) -> Enqueuer[P, R_co]:
        """Return the job with options for a push, which take precedence over the declared ones."""
        return _enqueuer(cls).using(**options)

    @classmethod
    def via(cls: type[Performs[P, R_co]], client: ClientSource) -> Enqueuer[P, R_co]:
        """Return the job with another client, for example for another server."""
        return _enqueuer(cls).via(client)

    # Now, later, many: as documented in Enqueuer

    @overload
    @classmethod
    def enqueue(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[T] | None: ...
    @overload
    @classmethod
    def enqueue(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co] | None: ...
    @classmethod
    def enqueue(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Store the job to run as soon as a worker is free, and return its jid. See `Enqueuer`."""
        return _enqueuer(cls).enqueue(*args, **kwargs)

    @overload
    @classmethod
    def enqueue_in(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[T] | None: ...
    @overload
    @classmethod
    def enqueue_in(
        cls: type[Performs[P, R_co]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[R_co] | None: ...
    @classmethod
    def enqueue_in(cls: type[Performs[P, R_co]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Store the job to run after ``delay``, seconds or a timedelta. See `Enqueuer`."""
        return _enqueuer(cls).enqueue_in(delay, *args, **kwargs)

    @overload
    @classmethod
    def enqueue_at(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], when: Moment, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[T] | None: ...
    @overload
    @classmethod
    def enqueue_at(
        cls: type[Performs[P, R_co]], when: Moment, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[R_co] | None: ...
    @classmethod
    def enqueue_at(cls: type[Performs[P, R_co]], when: Moment, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Store the job to run at ``when``, an aware datetime or epoch seconds. See `Enqueuer`."""
        return _enqueuer(cls).enqueue_at(when, *args, **kwargs)

    @checks_tuples
    @classmethod
    def enqueue_many(cls: type[Performs[..., Any]], calls: Iterable[Any], **how: Unpack[BulkOptions]) -> Jids[Any]:
        """Store many jobs in few round trips and return their jids. See `Enqueuer`."""
        return _enqueuer(cls).enqueue_many(calls, **how)

    @overload
    @classmethod
    def call(cls: type[Performs[P, Coroutine[Any, Any, T]]], /, *args: P.args, **kwargs: P.kwargs) -> Call[P, T]: ...
    @overload
    @classmethod
    def call(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> Call[P, R_co]: ...
    @classmethod
    def call(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Create an element for `enqueue_many`, or a step of a workflow. See `Enqueuer`."""
        return _enqueuer(cls).call(*args, **kwargs)

    @overload
    @classmethod
    def run_inline(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None: ...
    @overload
    @classmethod
    def run_inline(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> R_co | None: ...
    @classmethod
    def run_inline(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the job immediately, without Redis, through JSON and middleware. See `Enqueuer`."""
        return _enqueuer(cls).run_inline(*args, **kwargs)

    # The same for code on an event loop

    @overload
    @classmethod
    async def aenqueue(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[T] | None: ...
    @overload
    @classmethod
    async def aenqueue(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> JobId[R_co] | None: ...
    @classmethod
    async def aenqueue(cls: type[Performs[P, R_co]], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As `enqueue`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue(*args, **kwargs)

    @overload
    @classmethod
    async def aenqueue_in(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[T] | None: ...
    @overload
    @classmethod
    async def aenqueue_in(
        cls: type[Performs[P, R_co]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[R_co] | None: ...
    @classmethod
    async def aenqueue_in(cls: type[Performs[P, R_co]], delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As `enqueue_in`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue_in(delay, *args, **kwargs)

    @overload
    @classmethod
    async def aenqueue_at(
        cls: type[Performs[P, Coroutine[Any, Any, T]]], when: Moment, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[T] | None: ...
    @overload
    @classmethod
    async def aenqueue_at(
        cls: type[Performs[P, R_co]], when: Moment, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobId[R_co] | None: ...
    @classmethod
    async def aenqueue_at(cls: type[Performs[P, R_co]], when: Moment, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As `enqueue_at`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue_at(when, *args, **kwargs)

    @checks_tuples_async
    @classmethod
    async def aenqueue_many(
        cls: type[Performs[..., Any]], calls: Iterable[Any], **how: Unpack[BulkOptions]
    ) -> Jids[Any]:
        """As `enqueue_many`, without blocking the event loop."""
        return await _enqueuer(cls).aenqueue_many(calls, **how)

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
        raise InvalidJob(f"{cls.__module__}.{cls.__qualname__} is not a job: define the method perform")
    return Enqueuer(declared)


def _refuse_misspelt(cls: type[Job]) -> None:
    for name, value in cls.__dict__.items():
        if name == "perform":  # abstract
            continue
        if inspect.isfunction(value) and not name.startswith("_") and nearest(name, ("perform",), cutoff=0.85):
            raise InvalidJob(
                f"{cls.__module__}.{cls.__qualname__} has a method {name} and no perform; if the job should run it, "
                "rename it to perform; if this is a base class, choose a less similar name"
            )


def _with_hooks(cls: type[Job], declaration: JobDeclaration) -> JobDeclaration:
    """Add the class's ``retry_in`` and ``on_exhausted`` to the declaration, each called on a new object."""

    def retry_in(
        count: int, error: BaseException, payload: JobPayload
    ) -> float | timedelta | Literal["kill", "discard"] | None:
        return cls._make(_run_of(payload)).retry_in(count, error, payload)

    def on_exhausted(payload: JobPayload, error: BaseException) -> object:
        return cls._make(_run_of(payload)).on_exhausted(payload, error)

    hooked = JobDeclaration(**declaration)
    if "retry_in" not in declaration and cls.retry_in is not Job.retry_in:
        hooked["retry_in"] = retry_in
    if "on_exhausted" not in declaration and cls.on_exhausted is not Job.on_exhausted:
        hooked["on_exhausted"] = on_exhausted
    return hooked


def _run_of(payload: JobPayload) -> JobContext:
    """The context of the failed run, for callbacks of the job that run after it."""
    return JobContext(payload, payload.get("queue", ""))
