"""The result of a task, from the state of its job that the extension ``Results`` stores."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.conf import settings

from offsider.core.error_text import class_of, traceback_of
from offsider.ext.results.store import WAITING

if TYPE_CHECKING:
    from offsider.ext.results.store import Stored

#: The tasks framework: of Django 6, or the backport.
PACKAGE = "django.tasks" if find_spec("django.tasks") else "django_tasks"
_base = import_module(f"{PACKAGE}.base")
_STATUS = dict.fromkeys(WAITING, "READY") | {"running": "RUNNING", "succeeded": "SUCCESSFUL"}


class TaskLost(Exception):
    """A task was deleted, killed, cancelled or quarantined before it ended. The last error of its result."""


def fields_of(stored: Stored) -> Mapping[str, Any]:
    """Return the fields of a ``TaskResult`` that change after the push."""
    info, failures = stored.info, stored.info.failures
    status = _STATUS.get(info.state, "FAILED")
    errors = [_task_error(failure.error_class, failure.traceback) for failure in failures]
    starts = [failure.started_at for failure in failures]
    # Failures that are not stored any more were attempts too.
    workers = ["unknown"] * (failures[0].attempt - 1 if failures else 0) + [failure.process for failure in failures]
    if info.started_at is not None and (not starts or starts[-1] < info.started_at):
        starts.append(info.started_at)
        workers.append(info.process)
    if status == "FAILED" and not (failures and failures[-1].failed_at == info.changed_at):
        about = f": {info.error_class}: {info.error_message}" if info.error_class and not failures else ""
        errors.append(task_error(TaskLost(f"the job ended before the task: it is {info.state}{about}")))
    return {
        "status": _base.TaskResultStatus(status),
        "started_at": _time(starts[0]) if starts else None,
        "last_attempted_at": _time(starts[-1]) if starts else None,
        "finished_at": _time(info.changed_at) if stored.ended else None,
        "worker_ids": workers,
        "errors": errors,
        "_return_value": json.loads(stored.result or "null"),
    }


def task_error(error: BaseException) -> Any:
    """Return a ``TaskError``."""
    return _task_error(class_of(error), traceback_of(error))


def _task_error(error_class: str, traceback: str) -> Any:
    path = error_class if "." in error_class else f"builtins.{error_class}"
    return _base.TaskError(exception_class_path=path, traceback=traceback)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC if settings.USE_TZ else None)
