"""``@job``: declares a function as a job. The function can still be called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from offsider.core.errors import InvalidJob
from offsider.core.options import JobDeclaration
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


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


class _Declare(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine is a result, too
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncJobFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobFunction[P, R]: ...


@overload
def job(  # type: ignore[overload-overlap]
    function: Callable[P, Coroutine[Any, Any, R]], /
) -> AsyncJobFunction[P, R]: ...
@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(**declaration: Unpack[JobDeclaration]) -> _Declare: ...
def job(function: Callable[..., Any] | None = None, /, **declaration: Unpack[JobDeclaration]) -> Any:
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
    the installed extensions are known.

    Raises:
        InvalidOptions: another job has this name; keyword-only parameters with ``shared_with_ruby``.
        InvalidJob: it is a generator, a class, a method in the body of its class or an object without a name; a cache
            keeps the coroutine of its first run; or an option was passed without its name.
    """
    if isinstance(function, str):
        raise InvalidJob(f"@job takes options by name, got {function!r}: write @job(queue={function!r})")

    def declare(function: Callable[..., Any]) -> JobFunction[..., Any] | AsyncJobFunction[..., Any]:
        declared = Declared(function, function, declaration)
        registry.register(declared)
        is_coroutine = inspect.iscoroutinefunction(function)
        return AsyncJobFunction(function, declared) if is_coroutine else JobFunction(function, declared)

    return declare if function is None else declare(function)
