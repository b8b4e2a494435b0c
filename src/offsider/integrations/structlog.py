"""For structlog: the processor `job_fields` tells which job an event belongs to, in the words of the structured log.

structlog itself is not imported here.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from logging import LogRecord
from typing import Any

from offsider.wiring.context import current_job_or_none
from offsider.wiring.logs import context_of
from offsider.wiring.structured_log import about_here, without_payloads


def job_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the running job's fields and its context to an event; what the event says itself stays.

    In the ``foreign_pre_chain`` of a ``ProcessorFormatter`` it also takes the fields of our own lines: ``job_status``,
    timings, errors.
    """
    record = event.get("_record")
    fields = context_of(record if isinstance(record, LogRecord) else None)
    told = {**without_payloads(fields, arguments=False), **about_here(current_job_or_none())}
    for name, value in told.items():
        event.setdefault(name, value)
    return event
