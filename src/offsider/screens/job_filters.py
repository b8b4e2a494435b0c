"""The filter of a list of jobs as fields of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offsider.core.segments import from_segment, segment
from offsider.inspector.job_filter import TIMES, JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.screens import time_ranges
from offsider.screens.plain import LINE_LETTERS
from offsider.screens.redaction import Redact
from offsider.screens.shown_job import listed_job, one_line

if TYPE_CHECKING:
    from offsider.config.web_tab import WebRequest

_MAX_WHERE_LETTERS = 2_000
#: Field of a request -> field of the filter.
TEXTS = {
    "text": "text",
    "class": "name",
    "error": "error",
    "args": "argument",
    "tenant": "tenant",
    "caller": "caller",
    "queue": "queue",
    "tag": "tag",
    "jid": "jid",
}
LABELS = {
    "text": "Text anywhere in the job",
    "class": "Class",
    "error": "Error class, text or group",
    "args": "Argument",
    "tenant": "Tenant",
    "caller": "Caller",
    "queue": "Queue",
    "tag": "Tag",
    "jid": "Job ID",
    "failed": "Failed (10m, 03:39..03:49)",
    "died": "Died",
    "created": "Created",
    "due": "Due",
}
FIELDS = ("where", *LABELS)
#: The id of a group of errors.
_GROUP = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class ShownFilter(JobFilter):
    """A filter that finds arguments only where pages show them.

    Attributes:
        redact: returns the arguments to show; None: all.
    """

    redact: Redact | None = field(default=None, compare=False, repr=False)

    def matches(self, record: JobRecord) -> bool:
        return super().matches(record) and (self.redact is None or self._is_shown(record))

    def values_of(self, record: JobRecord) -> dict[str, str]:
        values = super().values_of(record)
        if self.redact is None:
            return values
        redacted = listed_job(record, self.redact)
        return values | {name: redacted.value(values[name]) for name in ("tenant", "caller")}

    def _is_shown(self, record: JobRecord) -> bool:
        asked = [text for text in (self.text, str(self.argument), self.error) if text]
        found = [*(self.tag, self.caller, self.tenant)]
        if not asked and not any(found):
            return True
        redacted = listed_job(record, self.redact)
        if not redacted.changed:
            return True
        arguments = one_line(record, redacted, LINE_LETTERS * 1_000)
        own = (record.jid, record.display_class, record.queue, record.error_class)
        texts = (arguments, *own, redacted.message(record.error_message))
        return all(any(text in each for each in texts) for text in asked) and all(
            redacted.value(text) == text for text in found
        )


def wanted(request: WebRequest) -> ShownFilter:
    """Return the filter of a request; an empty one without its fields. Times are absolute from now on.

    Raises:
        BadRequest: a text is longer than 100 characters, or a time is not one.
    """
    asked: dict[str, Any] = {name: request.text(field, most=LINE_LETTERS) for field, name in TEXTS.items()}
    group = asked["error"] if _GROUP.fullmatch(asked["error"]) else ""
    asked["error"] = "" if group else asked["error"]
    now = request.installation.config.clock.now()
    for name in TIMES:
        asked[name] = time_ranges.parse(name, request.text(name), now, ahead=name == "due")
    return ShownFilter(**asked, group=group, redact=request.redact)


def fields_of(wanted: JobFilter) -> dict[str, str]:
    """Return the fields of a filter, with absolute times."""
    found = {field: str(getattr(wanted, name)) for field, name in TEXTS.items()}
    found["error"] = found["error"] or wanted.group
    found |= {name: time_ranges.written(times) for name in TIMES if (times := getattr(wanted, name)) is not None}
    return {name: value for name, value in found.items() if value}


def described(fields: Mapping[str, str]) -> str:
    """Return a filter for the audit log, which never has arguments of jobs."""
    hidden = ("args", "text")
    return " ".join(f"{name}={'…' if name in hidden else value}" for name, value in fields.items())


def places_wanted(request: WebRequest) -> list[str]:
    """Return the names of the requested places; none without any."""
    text = request.text("where", most=_MAX_WHERE_LETTERS)
    return [from_segment(name) for name in text.split(",") if name]


def written_places(where: Sequence[str]) -> str:
    """Return the field ``where`` of places."""
    return ",".join(map(segment, where))
