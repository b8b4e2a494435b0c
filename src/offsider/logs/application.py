"""The application's own log records in a worker, written in the worker's format.

1. When the application has been imported and the root logger has no handlers, the worker's handler becomes its handler.
   An application that has configured logging, with ``dictConfig``, ``basicConfig`` or otherwise, keeps what it has.
2. The level of the root logger becomes ``log.application_level``, unless the application has changed it.
3. A record that the application's handlers write already is not written again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, cast

from offsider.logs.structured import is_about
from offsider.runtime.context import current_job_or_none

OFF = "off"
_PLAIN = logging.LogRecord("", logging.INFO, "", 0, "", (), None)
#: Attributes that every record has; others are from ``extra``.
_STANDARD = frozenset({*vars(_PLAIN), "message", "asctime", "taskName"})


def show_application_log(handler: logging.Handler, level: str) -> None:
    """Make ``handler`` the handler of the root logger if there is none.

    Args:
        level: the setting ``log.application_level``.
    """
    root = logging.getLogger()
    if level == OFF or root.handlers:
        return
    root.addHandler(handler)
    if root.level == logging.WARNING:  # the default
        root.setLevel(logging.getLevelNamesMapping()[level.upper()])


def is_written_by_application(record: logging.LogRecord, worker: logging.Handler) -> bool:
    """Return whether the application has a handler for the record below the root, so that ours would repeat it.

    For offsider's own records only a handler of a standard stream counts: others add to the worker's log.
    """
    at = logging.getLogger(record.name)
    repeats = _writes_to_standard_stream if is_ours(record) else _writes
    while at.parent is not None:
        if any(
            handler is not worker and record.levelno >= handler.level and repeats(handler) for handler in at.handlers
        ):
            return True
        at = at.parent
    return False


def _writes(handler: logging.Handler) -> bool:
    return not isinstance(handler, logging.NullHandler)


def _writes_to_standard_stream(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and cast("Any", handler).stream in (sys.stdout, sys.stderr)


def is_ours(record: logging.LogRecord) -> bool:
    """Return whether the record is of the logger ``offsider`` or of one below it."""
    return record.name == "offsider" or record.name.startswith("offsider.")


def application_fields(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the fields of a record of the application: its logger, the queue of the running job, and ``extra``."""
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    fields: dict[str, object] = {} if record.name == logging.root.name else {"logger": record.name}
    job = current_job_or_none()
    if job is not None and is_about(job, extra):
        fields["queue"] = job.queue
    return fields | extra
