"""Chunks: one call of a function for many jobs, ``@job(chunk=100)``."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVarTuple, cast

from offsider.core.errors import InvalidArguments, InvalidJob, InvalidOptions

if TYPE_CHECKING:
    from offsider.runtime.context import JobContext

Ts = TypeVarTuple("Ts")

CHUNK_SECONDS = 5.0


class Call(Generic[*Ts]):
    """One job of a chunk: the function of ``@job(chunk=...)`` gets a list of them.

    Attributes:
        args: the arguments of the job.
        job: its run: ``call.job.payload``, ``call.job.attempt`` and so on.
        error: the error that `fail` has set; None without one.
    """

    def __init__(self, args: tuple[*Ts], job: JobContext) -> None:
        self.args = args
        self.job = job
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<call {self.job.name} JID-{self.jid}>"

    @property
    def jid(self) -> str:
        """The id of the job."""
        return self.job.jid

    def fail(self, error: BaseException) -> None:
        """Fail this job alone, as if it had raised ``error``. The first error counts.

        `Retry`, `Reschedule`, `Skip` and `Discard` have their effect, too.

        Raises:
            InvalidArguments: ``error`` is not an exception.
        """
        if not isinstance(cast("object", error), BaseException):
            raise InvalidArguments(f"{self.job.name}: call.fail takes an exception, got {type(error).__name__}")
        if self.error is None:
            self.error = error


def function_of_one(name: str, function: Callable[..., Any], declaration: Mapping[str, Any], place: str) -> Any:
    """Return a function with the parameters of one job of a chunk: the types in ``calls: list[Call[int, str]]``.

    Raises:
        InvalidJob: it has other parameters, or needs a process of its own.
        InvalidOptions: ``chunk_seconds`` without ``chunk``.
    """
    if "chunk" not in declaration:
        raise InvalidOptions(f"{name}: chunk_seconds needs chunk, the maximum number of jobs in one call")
    if declaration.get("isolated"):
        raise InvalidJob(f"{name} runs in chunks, so it cannot be isolated ({place})")
    parameters = [*inspect.signature(function).parameters.values()]
    by_position = len(parameters) == 1 and parameters[0].kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD
    try:
        hint = typing.get_type_hints(inspect.unwrap(function)).get(parameters[0].name) if by_position else None
    except (NameError, AttributeError) as error:
        raise InvalidJob(
            f"{name} runs in chunks, so its annotation is needed at the declaration, and {error}; import it at run "
            f"time (not under TYPE_CHECKING), and define it above the job ({place})"
        ) from None
    call = next(iter(typing.get_args(hint)), None) if typing.get_origin(hint) is list else None
    if (typing.get_origin(call) or call) is not Call:
        raise InvalidJob(
            f"{name} runs in chunks, so it must be a function of one list, with the types of the arguments of one job: "
            f"def {name.rpartition('.')[2]}(calls: list[Call[int, str]]) ({place})"
        )

    def of_one(*args: Any) -> None: ...

    kinds = {f"arg{number}": kind for number, kind in enumerate(typing.get_args(call), 1)}
    if call is not Call:
        only = inspect.Parameter.POSITIONAL_ONLY
        signature = inspect.Signature([inspect.Parameter(each, only, annotation=kinds[each]) for each in kinds])
        of_one.__dict__["__signature__"], of_one.__annotations__ = signature, kinds
    return of_one
