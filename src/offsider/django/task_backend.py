"""Django's tasks framework: ``TASKS = {"default": {"BACKEND": "offsider.django.task_backend.TaskBackend"}}``.

The same code serves ``django.tasks`` (Django 6) and its backport ``django_tasks``.

1. `TaskBackend.enqueue` pushes one job, ``offsider.django.task``, with the path and the arguments of the task.
2. The extension ``Results`` stores the state, the arguments, the failures and the result of the job.
   `TaskBackend.get_result` reads them.
3. A worker looks the path up in the modules that the application has imported. It never imports a module because a
   payload names it, and runs nothing but tasks.
"""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import inspect
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, cast

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.utils import timezone

from offsider.config.config import Config
from offsider.config.default import default_config
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.arguments import encode_result
from offsider.core.clock import as_seconds
from offsider.core.errors import ConfigurationError, InvalidOptions, OffsiderError, UnknownJob
from offsider.core.options import check_queue_name, wire_options
from offsider.core.payload import JobPayload, new_jid
from offsider.django.database import connections_of_a_job
from offsider.ext.results import Results
from offsider.ext.results.reader import Reader
from offsider.ext.results.store import ARGUMENTS, KEEP_RESULT, MAX_LIFE_SECONDS, TRACK
from offsider.jobs.clients import client_for
from offsider.jobs.declared import check_all_options
from offsider.jobs.function import job
from offsider.jobs.routes import RoutedQueue
from offsider.runtime.context import JobContext, current_job

try:
    from offsider.django.task_results import PACKAGE, fields_of, task_error
except ImportError as error:
    raise ConfigurationError(
        f"offsider.django.task_backend needs Django 6, or the backport for Django {django.get_version()}: "
        "pip install django-tasks"
    ) from error
_tasks = import_module(PACKAGE)
_base = import_module(f"{PACKAGE}.base")
_BaseTaskBackend: Any = import_module(f"{PACKAGE}.backends.base").BaseTaskBackend
_signals = import_module(f"{PACKAGE}.signals")
_DoesNotExist: Any = import_module(f"{PACKAGE}.exceptions").TaskResultDoesNotExist

#: The keys of ``OPTIONS`` that are no options of a push.
PRIORITIES, RESULT_SECONDS = "priorities", "result_seconds"
#: Default of ``result_seconds``.
A_DAY = 86_400
#: Options of a push that are not stored in the payload.
_UNSTORED = ("after_commit", "wait_replicas", "server")


class ReturnValueError(OffsiderError, TypeError):
    """A task returned a value that is not JSON, or too large. It has done its work, so it is not retried."""


class TaskBackend(_BaseTaskBackend):
    """Runs the tasks of an alias of ``TASKS`` in the workers of offsider.

    ``OPTIONS`` has the options of a push, such as ``{"retry": 5, "after_commit": False}``, and two others.
    ``priorities`` is the lowest priority of each queue, such as ``{10: "high", -100: "low"}``: tasks of priority 0, and
    without ``priorities`` all tasks, are pushed to their ``queue_name``. ``result_seconds`` is how long a result is
    kept after the end of its task, by default a day; with 0 no results are stored.

    A failed task is retried as any job; its status is ``READY`` until then, and ``FAILED`` after the last retry.
    """

    supports_defer = True
    supports_async_task = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.supports_priority = bool(self.options.get(PRIORITIES))
        self.supports_get_result = self.options.get(RESULT_SECONDS) != 0

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Push a task and return its result, with the jid as ``id``. The push waits for the commit.

        Raises:
            InvalidTask: the task does not fit the backend.
            TypeError: an argument is not JSON.
            OffsiderError: as `Enqueuer.enqueue`.
        """
        result = self._result(task, args, kwargs)
        client_for().push(self._item(result))
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """As `enqueue`, without blocking the event loop."""
        result = self._result(task, args, kwargs)
        await client_for().apush(self._item(result))
        await sync_to_async(_signals.task_enqueued.send)(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the stored result of a task.

        Raises:
            TaskResultDoesNotExist: there is none: it has expired, or the push waits for a commit.
            UnknownJob: the module of the task is not imported here.
            RedisFailure: it cannot be read.
        """
        if not self.supports_get_result:
            return super().get_result(result_id)
        stored = Reader.of(Installation.of()).read(result_id)
        if stored.info.args is None:
            raise _DoesNotExist(result_id)
        result = _described(result_id, *stored.info.args)
        _change(result, **fields_of(stored))
        return result

    def check(self, **kwargs: Any) -> Iterator[CheckMessage]:
        """Check the table of the alias, for ``manage.py check``."""
        yield from super().check(**kwargs)
        what = f"TASKS[{self.alias!r}]"
        if not apps.is_installed("offsider.django"):
            hint = 'INSTALLED_APPS += ["offsider.django"]'
            yield Error(f"{what} needs the app offsider.django.", hint=hint, id="offsider.E004")
        try:
            _ = self._options, self._queues, self._kept
        except OffsiderError as error:
            hint = f"OPTIONS has the options of a push, {PRIORITIES!r} and {RESULT_SECONDS!r}."
            yield Error(str(error), hint=hint, id="offsider.E005")

    def destinations(self) -> Iterator[RoutedQueue]:
        """Return the queues of the tasks of this alias."""
        named = self.queues or {  # without QUEUES, a task may name any queue
            task.queue_name
            for module in list(sys.modules.values())
            for task in list(getattr(module, "__dict__", {}).values())
            if issubclass(type(task), _base.Task) and task.backend == self.alias  # isinstance wakes lazy objects
        }
        further = {self.options.get("retry_queue", ""), *(queue for _, queue in self._queues)} - {""}
        for queue in sorted(named | further):
            yield RoutedQueue(self.options.get("server", MAIN), queue, [f"TASKS[{self.alias!r}]"])

    @property
    def _what(self) -> str:
        return f"TASKS[{self.alias!r}]['OPTIONS']"

    @cached_property
    def _kept(self) -> Mapping[str, Any]:
        """The options of the extension ``Results``, by ``result_seconds``."""
        given = self.options.get(RESULT_SECONDS, A_DAY)
        if given == 0:
            return {KEEP_RESULT: False, TRACK: False}
        name = f"{self._what}: {RESULT_SECONDS}"
        kept_seconds = as_seconds(given, name, at_most=MAX_LIFE_SECONDS, error=InvalidOptions)
        return {KEEP_RESULT: kept_seconds, TRACK: ARGUMENTS}

    @cached_property
    def _options(self) -> dict[str, Any]:
        """The options of a push, in stored form."""
        given = {key: value for key, value in self.options.items() if key not in (PRIORITIES, RESULT_SECONDS)}
        check_all_options(given, default_config(), job_name=self._what)
        if given.get("retry") is False:  # the same, but with a callback for the signal
            given |= {"retry": 0, "dead": False}
        return wire_options(given) | {key: given[key] for key in _UNSTORED if key in given}

    @cached_property
    def _queues(self) -> list[tuple[int, str]]:
        """Lowest priority and queue, the highest first."""
        queues: Any = self.options.get(PRIORITIES, {})
        if not isinstance(queues, Mapping) or not all(isinstance(lowest, int) for lowest in queues):
            raise InvalidOptions(f"{self._what}: {PRIORITIES} expects a dict of int and queue, got {queues!r}")
        named = {lowest: check_queue_name(queue, what=f"{self._what}: queue") for lowest, queue in queues.items()}
        return sorted(({0: ""} | named).items(), reverse=True)

    def _queue_of(self, task: Any) -> str:
        return next((queue for lowest, queue in self._queues if task.priority >= lowest), "") or task.queue_name

    def _result(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        return _result(task, new_jid(), self.alias, args, kwargs, enqueued_at=timezone.now())

    def _item(self, result: Any) -> dict[str, Any]:
        task, due = result.task, result.task.run_after
        how = {"backend": self.alias, "priority": task.priority, "queue_name": task.queue_name}
        how["enqueued_at"] = result.enqueued_at.isoformat()
        if due is not None:
            how["run_after"] = due.isoformat()
            if timezone.is_naive(due):  # without USE_TZ
                due = timezone.make_aware(due)
        return {
            **self._options,
            **self._kept,
            "class": run_task.declared,
            "args": [task.module_path, result.args, result.kwargs, how],
            "queue": self._queue_of(task),
            "jid": result.id,
            "wrapped": task.module_path,
            "display_class": task.module_path,
            "at": due,
        }


def destinations(_config: Config) -> Iterator[RoutedQueue]:
    """Return the queues of the tasks of all aliases, for `Hooks.queue_sources`."""
    for backend in _tasks.task_backends.all():
        if isinstance(backend, TaskBackend):
            yield from backend.destinations()


def find_task(path: str) -> Any:
    """Return the task at ``module.name``. Raises UnknownJob if the module is not imported, or has no such task."""
    module, _, name = path.rpartition(".")
    # Not by getattr, because a module may have a function __getattr__ that imports.
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    if not isinstance(found, _base.Task):
        raise UnknownJob(
            path,
            f"this process has no task {path!r}: declare it in tasks.py of an app, or import its module there",
        )
    return found


def _retry_in(_count: int, error: BaseException, _payload: JobPayload) -> Literal["kill"] | None:
    return "kill" if isinstance(error, ReturnValueError) else None


def _exhausted(payload: JobPayload, error: BaseException) -> None:
    run = JobContext(payload, payload.get("queue", ""))
    try:
        result = _running(run)
    except UnknownJob:  # it never started, so nothing waits for its end
        return
    result.errors.append(task_error(error))
    _change(result, status=_base.TaskResultStatus.FAILED, finished_at=timezone.now())
    with contextmanager(connections_of_a_job)(run):
        try:
            raise error  # noqa: TRY301  # receivers of the signal find it in sys.exc_info()
        except BaseException:  # noqa: BLE001  # the task may have raised SystemExit
            _send(_signals.task_finished, result)


@job(name="offsider.django.task", retry_in=_retry_in, on_exhausted=_exhausted)
def run_task(path: str, args: list[Any], kwargs: dict[str, Any], how: dict[str, Any]) -> Any:  # noqa: ARG001  # of the payload
    """Run a task. Returns its return value, or the coroutine of an async task."""
    result = _running(current_job())
    task = result.task
    _send(_signals.task_started, result)
    context = (_base.TaskContext(task_result=result),) if task.takes_context else ()
    returned = task.func(*context, *args, **kwargs)
    return _awaited(result, returned) if inspect.iscoroutine(returned) else _succeeded(result, returned)


async def _awaited(result: Any, coroutine: Coroutine[Any, Any, Any]) -> Any:
    returned = await coroutine
    return await sync_to_async(_succeeded)(result, returned)  # receivers of the signal may use the database


def _succeeded(result: Any, returned: Any) -> Any:
    try:
        value = _base.normalize_json(returned)
        results = cast("Results", Installation.of().config.extensions[Results.name])
        encode_result(value, results.result_max_bytes, "result_max_bytes")
    except (TypeError, ValueError) as error:
        raise ReturnValueError(str(error)) from error
    _change(result, status=_base.TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)
    _send(_signals.task_finished, result)
    return value


def _running(run: JobContext) -> Any:
    """Return the result of the task that ``run`` runs, in its state at the start."""
    result = _described(run.jid, *run.args)
    now = timezone.now()
    _change(result, status=_base.TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
    # The payload has the number of earlier attempts, but not their workers.
    result.worker_ids.extend(["unknown"] * (run.attempt - 1) + [run.process])
    return result


def _described(jid: str, path: str, args: Any, kwargs: Any, how: Mapping[str, Any]) -> Any:
    """Return the result of a task by the arguments of its job, in its state before the start."""
    task, due = find_task(path), how.get("run_after")
    options = {**how, "run_after": due and datetime.fromisoformat(due)}
    enqueued_at = datetime.fromisoformat(options.pop("enqueued_at"))
    return _result(task.using(**options), jid, how["backend"], args, kwargs, enqueued_at=enqueued_at)


def _result(task: Any, jid: str, alias: str, args: Any, kwargs: Any, *, enqueued_at: datetime) -> Any:
    return _base.TaskResult(
        task=task,
        id=jid,
        status=_base.TaskResultStatus.READY,
        enqueued_at=enqueued_at,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _change(result: Any, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(result, name, value)  # results are frozen for users


def _send(signal: Any, result: Any) -> None:
    signal.send(type(result.task.get_backend()), task_result=result)
