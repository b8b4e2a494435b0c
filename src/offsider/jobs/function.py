"""``@job``: declares a function as a job. The function can still be called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, Unpack, overload

from offsider.core.errors import InvalidJob
from offsider.core.options import JobDeclaration
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class JobFunction(Enqueuer[P, R_co], Generic[P, R_co]):
    """A function declared as a job. Calling it calls the function; ``enqueue`` and the other methods store a job."""

    def __init__(self, function: Callable[P, R_co], declared: Declared) -> None:
        super().__init__(declared)
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function directly."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.declared.name}>"


@overload
def job(function: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(**declaration: Unpack[JobDeclaration]) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...
def job(
    function: Callable[P, R] | None = None, /, **declaration: Unpack[JobDeclaration]
) -> JobFunction[P, R] | Callable[[Callable[P, R]], JobFunction[P, R]]:
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

    def declare(function: Callable[P, R]) -> JobFunction[P, R]:
        declared = Declared(function, function, declaration)
        registry.register(declared)
        return JobFunction(function, declared)

    return declare if function is None else declare(function)
