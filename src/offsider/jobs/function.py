"""``@job``: a function becomes a job, and stays a function that can be called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, Unpack, overload

from offsider.core.options import JobDeclaration
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer

P = ParamSpec("P")
R = TypeVar("R")


class JobFunction(Enqueuer[P, R], Generic[P, R]):
    """A job made of a function. Calling it calls the function; ``enqueue`` and the others store it."""

    def __init__(self, function: Callable[P, R], declared: Declared) -> None:
        super().__init__(declared)
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, as if it were no job."""
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

    The stored name is module and qualified name, unless ``name=`` says otherwise. Nothing else is touched: no
    configuration, no Redis. Options are those of `JobDeclaration`; unknown or impossible ones are refused at the
    first push or at launch, when the installed extensions are known.

    Raises:
        InvalidOptions: another job has this name; keyword-only parameters with ``shared_with_ruby``.
        InvalidJob: the function is a generator, whose body no worker would run.
    """

    def declare(function: Callable[P, R]) -> JobFunction[P, R]:
        declared = Declared(function, function, declaration)
        registry.register(declared)
        return JobFunction(function, declared)

    return declare if function is None else declare(function)
