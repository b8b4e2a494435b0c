"""``@job``: declares a function as a job. The function can still be called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, TypeVarTuple, Unpack, cast, overload

from offsider.core.errors import InvalidJob
from offsider.core.options import ChunkDeclaration, JobDeclaration
from offsider.jobs import registry
from offsider.jobs.chunk import Call
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Ts = TypeVarTuple("Ts")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
#: What the function of a chunk returns.
N = TypeVar("N", bound=Coroutine[Any, Any, None] | None)


class _DeclaredFunction(Enqueuer[P, R_co], Generic[P, R_co]):
    def __init__(self, function: Callable[P, Any], declared: Declared) -> None:
        super().__init__(declared)
        self._function = function
        functools.update_wrapper(cast("Callable[..., Any]", self), function)

    def __repr__(self) -> str:
        return f"<job {self.declared.name}>"


class JobFunction(_DeclaredFunction[P, R_co], Generic[P, R_co]):
    """A function declared as a job. Calling it calls the function; ``enqueue`` and the other methods store a job."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function directly."""
        result: R_co = self._function(*args, **kwargs)
        return result


class AsyncJobFunction(_DeclaredFunction[P, R_co], Generic[P, R_co]):
    """A coroutine function declared as a job. Type checkers know what the coroutine returns as the job's result."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Call the function directly, and return its coroutine."""
        coroutine: Coroutine[Any, Any, R_co] = self._function(*args, **kwargs)
        return coroutine


class ChunkFunction(_DeclaredFunction[P, None], Generic[P, N]):
    """A function that runs many jobs in one call. ``enqueue`` and the other methods take the arguments of one job."""

    def __call__(self, calls: list[Any], /) -> N:
        """Call the function directly, with a list of `Call`."""
        function: Callable[[list[Any]], N] = cast("Any", self._function)
        return function(calls)


class _Declare(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine is a result, too
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...


class _DeclareChunk(Protocol):
    """Converts the types of the arguments to parameters; those of more than four arguments are not checked."""

    @overload
    def __call__(self, function: Callable[[list[Call[()]]], N], /) -> ChunkFunction[[], N]: ...
    @overload
    def __call__(self, function: Callable[[list[Call[A]]], N], /) -> ChunkFunction[[A], N]: ...
    @overload
    def __call__(self, function: Callable[[list[Call[A, B]]], N], /) -> ChunkFunction[[A, B], N]: ...
    @overload
    def __call__(self, function: Callable[[list[Call[A, B, C]]], N], /) -> ChunkFunction[[A, B, C], N]: ...
    @overload
    def __call__(self, function: Callable[[list[Call[A, B, C, D]]], N], /) -> ChunkFunction[[A, B, C, D], N]: ...
    @overload
    def __call__(self, function: Callable[[list[Call[*Ts]]], N], /) -> ChunkFunction[..., N]: ...


@overload
def job(  # type: ignore[overload-overlap]
    function: Callable[P, Coroutine[Any, Any, R]], /
) -> AsyncJobFunction[P, R]: ...
@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(**declaration: Unpack[ChunkDeclaration]) -> _DeclareChunk: ...
@overload
def job(**declaration: Unpack[JobDeclaration]) -> _Declare: ...
def job(function: Callable[..., Any] | None = None, /, **declaration: Any) -> Any:
    """Declare a function, plain or ``async def``, as a job.

    ::

        @job
        def welcome(user_id: int) -> None: ...

        @job(queue="low", retry=5)
        async def resize(path: str, *, width: int = 100) -> None: ...

        welcome.enqueue(42)
        resize.using(queue="high").enqueue_in(60, "a.png", width=200)

    The stored name is module and qualified name, unless ``name=`` is given. Declaring a job uses neither configuration
    nor Redis. Options are those of `JobDeclaration`; unknown or invalid ones raise at the first push or at launch, when
    the installed extensions are known. With ``chunk``, the function takes a list of `Call`, see `ChunkDeclaration`.

    Raises:
        InvalidOptions: another job has this name; keyword-only parameters with ``shared_with_ruby``.
        InvalidJob: it is a generator, a class, a method in the body of its class or an object without a name; a cache
            keeps the coroutine of its first run; an option was passed without its name; or, with ``chunk``, it is not a
            function of one list of `Call`.
    """
    if isinstance(function, str):
        raise InvalidJob(f"@job takes options by name, got {function!r}: write @job(queue={function!r})")

    def declare(function: Callable[..., Any]) -> Enqueuer[..., Any]:
        declared = Declared(function, function, cast("JobDeclaration", declaration))
        registry.register(declared)
        if declared.chunk:
            return ChunkFunction[..., None](function, declared)
        is_coroutine = inspect.iscoroutinefunction(function)
        return AsyncJobFunction(function, declared) if is_coroutine else JobFunction(function, declared)

    return declare if function is None else declare(function)
