"""A job in fake mode, the ways to refer to a job, and the formats of jobs, values and times in failure messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from offsider.config.hooks import Prepared
from offsider.core.compression import decode_plain
from offsider.core.payload import JobPayload, read_stamp
from offsider.jobs.base import Job
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer, JobCall

MAX_VALUE_LETTERS = 100


def shown_value(given: object) -> str:
    """Return the repr, shortened in the middle if it is long."""
    text = repr(given)
    if len(text) <= MAX_VALUE_LETTERS:
        return text
    half = MAX_VALUE_LETTERS // 2 - 2
    return f"{text[:half]}...{text[-half:]}"


def shown_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Format as ``app.resize('a.png', width=200)``."""
    words = [shown_value(each) for each in args] + [f"{key}={shown_value(each)}" for key, each in kwargs.items()]
    return f"{name}({', '.join(words)})"


def shown_delay(seconds: float) -> str:
    """Format as ``in 90 s``."""
    # Stamps are in milliseconds, so the third digit is noise.
    return f"in {round(seconds, 2):g} s" if abs(seconds) < 1e5 else f"in {round(seconds)} s"


def shown_moment(epoch_seconds: float) -> str:
    """Format as ``at 2030-01-01 12:00:00 UTC``; as a number if `datetime` cannot represent it."""
    try:
        when = datetime.fromtimestamp(epoch_seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"at {epoch_seconds!r}"
    return f"at {when:%Y-%m-%d %H:%M:%S} UTC"


#: The job that runs the tasks of `django.tasks`: a path, its arguments, and more.
TASK = "offsider.django.task"


class Task(Protocol):
    """A task of `django.tasks`."""

    @property
    def module_path(self) -> str: ...


AnyJob: TypeAlias = Enqueuer[..., Any] | type[Job] | Task | str
"""A job function, a job class, either with ``.using(...)``, a task of `django.tasks`, or the name of a job or task."""


@dataclass(frozen=True, repr=False)
class EnqueuedJob:
    """A pushed job.

    Attributes:
        payload: the payload as a worker would decode it from JSON.
        queue: the queue to which it would have been pushed.
        at: epoch seconds at which it is due; None for at once.
        raw: the bytes that Redis would have stored.
    """

    payload: JobPayload
    queue: str
    at: float | None
    raw: bytes

    @classmethod
    def of(cls, prepared: Prepared) -> EnqueuedJob:
        """Return the job of a prepared push."""
        return cls(decode_plain(prepared.raw), prepared.queue, prepared.at, prepared.raw)

    @property
    def _task(self) -> Sequence[Any] | None:
        """Path and arguments of a task of `django.tasks`."""
        return self.payload["args"] if self.payload["class"] == TASK else None

    @property
    def name(self) -> str:
        """The stored name; of a task of `django.tasks`, its path."""
        return self._task[0] if self._task else self.payload["class"]

    @property
    def jid(self) -> str:
        """The ID of the job."""
        return self.payload.get("jid", "")

    @property
    def args(self) -> list[Any]:
        """Positional arguments, as JSON stores them."""
        return self._task[1] if self._task else self.payload["args"]

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Keyword-only arguments, of a task all keyword arguments; all others are in `args`."""
        return self._task[2] if self._task else self.payload.get("kwargs") or {}

    @property
    def tags(self) -> Sequence[str]:
        """The tags; empty if there are none."""
        return self.payload.get("tags") or ()

    @property
    def delay_seconds(self) -> float:
        """Seconds from the push until it is due; 0 for at once."""
        if self.at is None:
            return 0.0
        created_at = read_stamp(self.payload.get("created_at"))
        return self.at - (self.at if created_at is None else created_at)

    def is_due(self, now_seconds: float) -> bool:
        """Whether a worker would start it at this time, in epoch seconds."""
        return self.at is None or self.at <= now_seconds

    def prepared(self) -> Prepared:
        """The push again, to run it."""
        return Prepared(self.payload, self.raw, self.queue, self.at)

    def __str__(self) -> str:
        text = f"{shown_call(self.name, self.args, self.kwargs)} in queue {self.queue}"
        if self.at is None:
            return text
        return f"{text}, due {shown_moment(self.at)} ({shown_delay(self.delay_seconds)})"

    def __repr__(self) -> str:
        return f"<{self}>"


def declared_behind(job: AnyJob | JobCall[..., Any]) -> Declared | None:
    """Return the declaration of a job that is declared in Python; None for a name and a task of `django.tasks`.

    Raises:
        TypeError: the value is not a job.
    """
    if isinstance(job, str) or _path_of(job):
        return None
    declared = getattr(job, "declared", None)
    if not isinstance(declared, Declared):
        raise TypeError(f"expected a job function, a job class or the name of a job, got {job!r}")
    return declared


def name_of(job: AnyJob | JobCall[..., Any]) -> str:
    """Return the stored name. Raises TypeError as `declared_behind`."""
    if isinstance(job, str):
        return job
    declared = declared_behind(job)
    return _path_of(job) if declared is None else declared.name


def _path_of(task: object) -> str:
    """Return the path of a task of `django.tasks`; empty for anything else."""
    path = getattr(task, "module_path", "")
    return path if isinstance(path, str) else ""
