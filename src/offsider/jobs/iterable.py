"""``IterableJob``: Sidekiq's form of an iteration, whose state Ruby can continue."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Unpack

from offsider.core.errors import InvalidJob, Reschedule, RunInterrupted, Skip
from offsider.core.options import JobDeclaration
from offsider.jobs.base import Job
from offsider.jobs.iteration import Resumable

P = ParamSpec("P")


class _Iterates(Protocol[P]):
    """A class whose ``each_iteration`` types ``enqueue`` and the other methods."""

    @property
    def each_iteration(self) -> Callable[Concatenate[Any, P], object]: ...


class IterableJob(Job):
    """Base class of jobs that process elements, and continue at the element where they were stopped.

    ::

        class Reindex(IterableJob, queue="low"):
            def build_enumerator(self, tenant: int, *, cursor: int | None) -> Iterable[tuple[User, int]]:
                for user in users_of(tenant, from_id=cursor):
                    yield user, user.id

            def each_iteration(self, user: User, tenant: int) -> None:
                index(user)

    Both methods take the arguments of the job; ``each_iteration`` may be ``async def``. A class without one of them is
    not a job. A job of the same name in Ruby continues what this one has begun, and the reverse. See `resumable` for
    what ends a run, and what is repeated.

    The hooks are those of Sidekiq: ``on_start`` before the first element, ``on_resume`` instead in later runs,
    ``on_stop`` whenever the iteration ends without an error, ``on_cancel`` if the job was cancelled, and
    ``on_complete`` after the last element and after a cancellation. ``around_iteration`` is a context manager around
    each element. With an ``async def`` ``each_iteration``, the hooks still are plain methods.
    """

    _elements: Resumable[Any] | None = None

    def __init_subclass__(cls, **declaration: Unpack[JobDeclaration]) -> None:
        if "perform" in cls.__dict__:
            raise InvalidJob(f"{cls.__module__}.{cls.__qualname__}: an IterableJob has no perform: see each_iteration")
        if hasattr(cls, "each_iteration") and hasattr(cls, "build_enumerator"):
            setattr(cls, "perform", _performing(cls.each_iteration))  # noqa: B010 - for types it is a property
        super().__init_subclass__(**declaration)

    if TYPE_CHECKING:

        @property
        def perform(self: _Iterates[P]) -> Callable[P, None]:
            """Iterates; its parameters are those of ``each_iteration`` without the element."""
            ...

    #: ``build_enumerator(self, *args, cursor)`` returns pairs of an element and its cursor, from a cursor on.
    build_enumerator: Any
    #: ``each_iteration(self, element, *args)`` processes one element.
    each_iteration: Any

    @property
    def cursor(self) -> Any:
        """Cursor of the current element; None before the first one."""
        return None if self._elements is None else self._elements.cursor

    def on_start(self) -> None:
        """Override it to run code before the first element, once."""

    def on_resume(self) -> None:
        """Override it to run code before the first element of each later run."""

    def on_stop(self) -> None:
        """Override it to run code at the end of each run that did not fail."""

    def on_cancel(self) -> None:
        """Override it to run code when the job was cancelled."""

    def on_complete(self) -> None:
        """Override it to run code after the last element, or after a cancellation."""

    @contextmanager
    def around_iteration(self) -> Generator[None, None, None]:
        """Override it to run code around each element."""
        yield

    @contextmanager
    def _iteration(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Generator[Resumable[Any], None, None]:
        def pairs(cursor: Any) -> Any:
            found = self.build_enumerator(*args, **kwargs, cursor=cursor)
            if found is None:
                raise Skip("build_enumerator returned None")
            if elements.executions == 1:
                self.on_start()
            else:
                self.on_resume()
            return found

        self._elements = elements = Resumable(pairs)
        try:
            yield elements
        except (RunInterrupted, Reschedule):
            self.on_stop()
            raise
        except Skip:
            if elements.is_cancelled:
                self.on_cancel()
                self.on_stop()
                self.on_complete()
            raise
        self.on_stop()
        self.on_complete()


def _performing(each_iteration: Any) -> Callable[..., Any]:
    """Return the ``perform`` of a class with this method, with the parameters of the job."""

    def perform(self: IterableJob, /, *args: Any, **kwargs: Any) -> None:
        with self._iteration(args, kwargs) as elements:
            for element in elements:
                with self.around_iteration():
                    self.each_iteration(element, *args, **kwargs)

    async def aperform(self: IterableJob, /, *args: Any, **kwargs: Any) -> None:
        with self._iteration(args, kwargs) as elements:
            async for element in elements:
                with self.around_iteration():
                    await self.each_iteration(element, *args, **kwargs)

    is_async = inspect.iscoroutinefunction(each_iteration)
    made: Callable[..., Any] = aperform if is_async else perform
    signature = inspect.signature(each_iteration)
    own, _, *parameters = signature.parameters.values()
    functools.update_wrapper(made, each_iteration).__dict__ |= {
        "__signature__": signature.replace(parameters=[own, *parameters])
    }
    del made.__dict__["__wrapped__"]  # it has one parameter more
    return made
