"""For the application's own logs: the running job in each record.

`JobFieldsFilter` is a filter for handlers of the standard library, `job_fields` a processor for structlog, which is not
imported here.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from logging import LogRecord
from typing import Any

from offsider.logs.setup import JobFieldsFilter, fields_of
from offsider.logs.structured import line_fields

__all__ = ["JobFieldsFilter", "job_fields"]


def job_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the running job's fields and its context to an event, without overwriting fields of the event.

    In the ``foreign_pre_chain`` of a ``ProcessorFormatter`` it also adds the fields of our own log records:
    ``job_status``, timings, errors, and the job of the record, which may differ from the running job.
    """
    record = event.get("_record")
    fields = line_fields(fields_of(record) if isinstance(record, LogRecord) else {})
    for name, value in fields.items():
        event.setdefault(name, value)
    return event
