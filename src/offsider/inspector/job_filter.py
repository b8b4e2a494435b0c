"""A filter of stored jobs by class, argument, error, tenant, caller, tag, queue, and the times of a job."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeAlias, cast

from offsider.core.clock import END_OF_TIME
from offsider.core.compression import COMPRESSED, may_hold
from offsider.core.errors import InvalidOptions
from offsider.core.payload import encode_text, json_type, shown_class
from offsider.inspector.job_record import JobRecord
from offsider.storage.error_groups import group_of

#: Characters that no JSON encoder escapes. Some encoders escape ``/``, ``<``, ``>``, ``&`` and non-ASCII characters.
_AS_WRITTEN = re.compile(r"[A-Za-z0-9_.:@ -]+")
_WHOLE_NUMBER = re.compile(r"-?\d+")
_NUMBER_LIKE = re.compile(r"[-+0-9.eE]+")
_COMPRESSED = f'"{COMPRESSED}"'.encode()
_TEXT = (str, "a string")
_TYPES = {"argument": (str | int | float, "a string, a finite number or a boolean")}
#: Fields that are times, and the attribute of a job with each.
TIMES = {"failed": "last_failed_at", "died": "died_at", "created": "created_at", "due": "due_at"}
#: The first and the last moment of a time, in epoch seconds; the first one is included.
TimeRange: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class JobFilter:
    """Matches jobs that meet all given conditions. Texts are literal and case-sensitive.

    Attributes:
        text: text anywhere in the stored job.
        name: stored name of the job, or the name inside its ActiveJob wrapper.
        argument: an argument at any depth: a string that contains this text, or a number, ``true``, ``false`` or
            ``null`` that equals it. A filter that is a number or a boolean matches no string.
        error: part of the class or of the message of the last error.
        group: ID of the `ErrorGroup` of the last error.
        tag: one of the tags of the job.
        caller: the caller that pushed the job: its ``meta.caller_id``.
        tenant: the customer for which it was pushed, see `JobRecord.tenant`.
        jid: ID of the job.
        queue: queue of the job.
        failed: when it failed last, as ``(since, until)`` in epoch seconds; ``math.inf`` is an open end. A job that has
            never failed does not match.
        died: when it was moved to the dead set.
        created: when it was created.
        due: when it is due in the schedule or the retry set.

    Raises:
        InvalidOptions: a value has the wrong type.
    """

    text: str = ""
    name: str = ""
    argument: str | float = ""  # float includes int and bool
    error: str = ""
    group: str = ""
    tag: str = ""
    caller: str = ""
    tenant: str = ""
    jid: str = ""
    queue: str = ""
    failed: TimeRange | None = None
    died: TimeRange | None = None
    created: TimeRange | None = None
    due: TimeRange | None = None

    def __post_init__(self) -> None:
        for field in fields(JobFilter):
            if field.name in TIMES:
                _check_range(field.name, getattr(self, field.name))
                continue
            value, (kinds, expected) = getattr(self, field.name), _TYPES.get(field.name, _TEXT)
            if not isinstance(value, kinds) or (isinstance(value, float) and not math.isfinite(value)):
                raise InvalidOptions(f"JobFilter: {field.name} is {json_type(value)}, expected {expected}")

    @cached_property
    def empty(self) -> bool:
        """Whether every job matches."""
        return all(getattr(self, field.name) == field.default for field in fields(JobFilter))

    @property
    def stored(self) -> dict[str, object]:
        """Its fields, as `JobCounts` stores them."""
        return {field.name: getattr(self, field.name) for field in fields(JobFilter)}

    @cached_property
    def needle(self) -> str:
        """Text that the stored bytes of every matching job contain; empty if unknown.

        With it most jobs can be skipped without decoding them, by the server itself where it can match. It is never
        from an argument, since arguments may be compressed.
        """
        return _longest_run(
            self.text, self.name.partition("#")[0], self.error, self.tag, self.caller, self.tenant, self.jid
        )

    @cached_property
    def _argument(self) -> str:
        return self.argument if isinstance(self.argument, str) else encode_text(self.argument)

    @property
    def _argument_as_written(self) -> str:
        # The same number has several JSON forms: 1e3 is 1000.0.
        if _WHOLE_NUMBER.fullmatch(self._argument) or not _NUMBER_LIKE.fullmatch(self._argument):
            return self._argument
        return ""

    def matches(self, record: JobRecord) -> bool:
        """Whether the job matches."""
        return (
            self._may_fit(record.raw)
            and self._fits_text(record)
            and (not self.name or self.name in (record.name, record.display_class))
            and (not self._argument or self._fits_argument(record))
            and (not self.error or self.error in record.error_class or self.error in record.error_message)
            and (not self.group or self._fits_group(record))
            and (not self.tag or self.tag in record.tags)
            and (not self.caller or self.caller == record.caller)
            and (not self.tenant or self.tenant == record.tenant)
            and (not self.jid or self.jid == record.jid)
            and (not self.queue or self.queue == record.queue)
            and (not self._times or all(self._fits_time(record, name) for name in self._times))
        )

    @cached_property
    def _times(self) -> tuple[str, ...]:
        return tuple(name for name in TIMES if getattr(self, name) is not None)

    def values_of(self, record: JobRecord) -> dict[str, str]:
        """Return the values by which a count breaks jobs down; the time of a death to the hour."""
        died_at = record.died_at
        return {
            "name": record.display_class,
            "error": record.error_class,
            "tenant": record.tenant,
            "caller": record.caller or "",
            "queue": record.queue,
            "died": str(int(died_at // 3600 * 3600)) if died_at is not None and 0 <= died_at < END_OF_TIME else "",
        }

    def _may_fit(self, raw: bytes) -> bool:
        """Whether the bytes contain the needles of every matching job; a check without decoding."""
        needle, argument = self._needles
        return needle in raw and (argument in raw or _COMPRESSED in raw)

    @cached_property
    def _needles(self) -> tuple[bytes, bytes]:
        return self.needle.encode(), _longest_run(self._argument_as_written).encode()

    def _fits_text(self, record: JobRecord) -> bool:
        if not self.text or self.text.encode("utf-8", "replace") in record.raw:
            return True
        # Another encoder may have escaped characters: compare with the unescaped form.
        return record.payload is not None and self.text in encode_text(record.payload)

    def _fits_argument(self, record: JobRecord) -> bool:
        if record.payload is not None and not may_hold(record.payload, self._needles[1]):
            return False
        text = self.argument if isinstance(self.argument, str) else None
        return any(
            text is not None and text in leaf if isinstance(leaf, str) else self._argument == encode_text(leaf)
            for leaf in _leaves(record.arguments)
        )

    def _fits_group(self, record: JobRecord) -> bool:
        names = {record.name, record.display_class, shown_class(record.payload or {})}
        return bool(record.error_class) and any(
            group_of(name, record.error_class, record.error_frame) == self.group for name in names
        )

    def _fits_time(self, record: JobRecord, name: str) -> bool:
        wanted: TimeRange | None = getattr(self, name)
        if wanted is None:
            return True
        at: float | None = getattr(record, TIMES[name])
        return at is not None and wanted[0] <= at < wanted[1]


def _check_range(name: str, value: object) -> None:
    if value is None:
        return
    kind = json_type(value)
    ends = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if len(ends) != 2 or not all(isinstance(end, int | float) and not math.isnan(end) for end in ends):
        raise InvalidOptions(f"JobFilter: {name} is {kind}, expected (since, until) in epoch seconds")


def refuse_empty(wanted: object) -> None:
    """Raise InvalidOptions for a filter of a bulk action that its caller left empty by mistake."""
    if isinstance(wanted, JobFilter) and wanted.empty:
        raise InvalidOptions("an empty JobFilter matches every job: pass a condition, or the result of count() for all")


def _longest_run(*texts: str) -> str:
    return max((run for text in texts for run in _AS_WRITTEN.findall(text)), key=len, default="")


def _leaves(value: object) -> Iterator[object]:
    """Yield every value that is not a container, at any depth, without recursion."""
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += cast("dict[str, object]", item).values()
        elif isinstance(item, list | tuple):
            waiting += cast("list[object]", item)
        else:
            yield item
