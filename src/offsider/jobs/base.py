"""``Job``: jobs as classes, with hooks and state per run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, ClassVar, Concatenate, Literal, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from offsider.core.errors import InvalidJob
from offsider.core.job_id import JobId
from offsider.core.options import JobDeclaration, JobOptions
from offsider.core.payload import JobPayload
from offsider.core.suggestions import nearest
from offsider.jobs import registry
from offsider.jobs.clients import ClientSource
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import BulkOptions, Delay, Enqueuer, JobCall, Moment
from offsider.runtime.context import JobContext, current_job

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
When_contra = TypeVar("When_contra", contravariant=True)

_OWN = ("name",)  # not inherited: each job has its own names
_HOOKS = ("retry_in", "on_exhausted")


class _Performs(Protocol[P, R_co]):
    """A class with ``perform``, whose signature types ``enqueue`` and the other methods."""

    @property
    def perform(self) -> Callable[P, R_co]: ...


#: A job class, with the result of its ``perform``, and one whose ``perform`` is ``async def``.
_Of = type[_Performs[P, T]]
_AsyncOf = type[_Performs[P, Coroutine[Any, Any, T]]]
_Pushed = Coroutine[Any, Any, JobId[T]]


class _Pushes(Protocol[P, R_co]):
    def __call__(
        self, calls: Iterable[JobCall[P, Any] | tuple[Any, ...] | list[Any]], **how: Unpack[BulkOptions]
    ) -> R_co: ...


class _TakesOptions(Protocol[R_co]):
    def __call__(self, **options: Unpack[JobOptions]) -> R_co: ...


# Types of the methods of a job class: the coroutine of an ``async def`` job is unwrapped here.


class _Using(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> _TakesOptions[Enqueuer[P, T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> _TakesOptions[Enqueuer[P, T]]: ...


class _Via(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[[ClientSource], Enqueuer[P, T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[[ClientSource], Enqueuer[P, T]]: ...


class _Now(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[P, JobId[T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[P, JobId[T]]: ...


class _Later(Protocol[When_contra]):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[Concatenate[When_contra, P], JobId[T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[Concatenate[When_contra, P], JobId[T]]: ...


class _Many(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> _Pushes[P, list[JobId[T]]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> _Pushes[P, list[JobId[T]]]: ...


class _Calls(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[P, JobCall[P, T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[P, JobCall[P, T]]: ...


class _Inline(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[P, T | None]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[P, T | None]: ...


class _Lookup(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[[str], JobId[T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[[str], JobId[T]]: ...


class _AsyncNow(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[P, _Pushed[T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[P, _Pushed[T]]: ...


class _AsyncLater(Protocol[When_contra]):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> Callable[Concatenate[When_contra, P], _Pushed[T]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> Callable[Concatenate[When_contra, P], _Pushed[T]]: ...


class _AsyncMany(Protocol):
    @overload
    def __get__(self, instance: Any, owner: _AsyncOf[P, T], /) -> _Pushes[P, Coroutine[Any, Any, list[JobId[T]]]]: ...
    @overload
    def __get__(self, instance: Any, owner: _Of[P, T], /) -> _Pushes[P, Coroutine[Any, Any, list[JobId[T]]]]: ...


class _OfEnqueuer:
    """A method of `Enqueuer`, for the job of a class."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = getattr(Enqueuer, name).__doc__

    def __get__(self, instance: object, owner: type, /) -> Any:
        declared = getattr(owner, "declared", None)
        if declared is None:
            return functools.partial(_refuse, owner)
        return getattr(Enqueuer[..., Any](declared), self._name)


def _refuse(owner: type, *_args: Any, **_kwargs: Any) -> NoReturn:
    raise InvalidJob(f"{owner.__module__}.{owner.__qualname__} is not a job: define the method perform")


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
        enqueue, enqueue_in, enqueue_at, enqueue_many: store jobs; these and the next ones are those of `JobFunction`.
        aenqueue, aenqueue_in, aenqueue_at, aenqueue_many: the same for asyncio.
        using, via: choose options or the client of a push.
        call: returns a call with these arguments, for `enqueue_many` and workflows.
        run_inline: runs the job in this process.
        lookup: returns the typed id of a stored job.
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

    # The methods of `Enqueuer`

    using = cast("_Using", _OfEnqueuer("using"))
    via = cast("_Via", _OfEnqueuer("via"))
    enqueue = cast("_Now", _OfEnqueuer("enqueue"))
    enqueue_in = cast("_Later[Delay]", _OfEnqueuer("enqueue_in"))
    enqueue_at = cast("_Later[Moment]", _OfEnqueuer("enqueue_at"))
    enqueue_many = cast("_Many", _OfEnqueuer("enqueue_many"))
    call = cast("_Calls", _OfEnqueuer("call"))
    run_inline = cast("_Inline", _OfEnqueuer("run_inline"))
    lookup = cast("_Lookup", _OfEnqueuer("lookup"))
    aenqueue = cast("_AsyncNow", _OfEnqueuer("aenqueue"))
    aenqueue_in = cast("_AsyncLater[Delay]", _OfEnqueuer("aenqueue_in"))
    aenqueue_at = cast("_AsyncLater[Moment]", _OfEnqueuer("aenqueue_at"))
    aenqueue_many = cast("_AsyncMany", _OfEnqueuer("aenqueue_many"))

    # Sidekiq's names

    perform_async = enqueue
    perform_in = enqueue_in
    perform_at = enqueue_at
    perform_bulk = enqueue_many
    perform_inline = run_inline
    perform_sync = run_inline
    set = using


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
