"""Stored results of Django's tasks: the hash ``offsider:task:<jid>``.

Its fields are ``task`` (JSON: the arguments of the job, with the path of the task), ``status``, ``attempt:<number>``
and ``error:<number>`` (JSON) of each attempt, ``finished_at`` (ISO 8601) and ``return_value`` (JSON).

The first state is written in the script that stores the job, the last one in the script that writes its outcome: a
killed worker leaves no result of a run that is repeated. The start of a run is written before it, in its own request.
"""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from offsider.config.installation import Installation
from offsider.core.arguments import encode_result
from offsider.core.errors import MalformedPayload, RedisFailure
from offsider.core.outcome import Discarded, Failed, Skipped, Succeeded
from offsider.core.payload import decode
from offsider.storage.effects import Effect
from offsider.storage.hashes import texts
from offsider.storage.scripts import Argument, Script

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.outcome import Destination, Outcome
    from offsider.core.payload import JobPayload
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import JobRemoved
    from offsider.runtime.middleware import Push
    from offsider.storage.keys import Keys

#: The tasks framework: of Django 6, or the backport.
PACKAGE = "django.tasks" if find_spec("django.tasks") else "django_tasks"
#: The name of the job that runs tasks.
NAME = "offsider.django.task"
#: Default life of a result after the end of its task, and of the state of a task that waits or runs.
KEPT_SECONDS = 86_400
WAITING_SECONDS = 30 * 86_400
#: Maximum size of a return value as JSON, and of the traceback of an attempt, in characters.
MOST_BYTES = 1_048_576
MOST_TRACEBACK = 10_000
_WRITE = Script("task_result", files("offsider.django"))


class TaskLost(Exception):
    """A task was deleted, killed or quarantined before it ended. Stored as its error."""


class TaskResults:
    """Writes the states of tasks that are pushed, removed or dead; installed for the whole application."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def install(self) -> None:
        self._config.push_effects.append(self)
        self._config.on("job_removed", self._removed)
        self._config.death_handlers.append(self._died)

    def concerns(self, push: Push) -> bool:
        return push.payload["class"] == NAME

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        how = push.payload["args"][3]
        if not kept_seconds(how):
            return ()
        life_seconds = WAITING_SECONDS + (0.0 if at is None else max(0.0, at - self._config.clock.now()))
        keys = Installation.of(self._config, push.server).redis.keys
        fields = {"task": json.dumps(push.payload["args"]), "status": "READY"}
        jid = push.payload.get("jid", "")
        return [Effect(_WRITE, [_key(keys, jid)], _arguments("new", life_seconds, fields))]

    def _removed(self, news: JobRemoved) -> None:
        if NAME.encode() not in news.raw:  # most jobs
            return
        try:
            payload = decode(news.raw)
        except MalformedPayload:
            return
        self._lose(payload, TaskLost(f"the job was removed before it finished ({news.how})"), news.server)

    def _died(self, payload: JobPayload, error: BaseException | None) -> None:
        self._lose(payload, error or TaskLost("the job moved to the dead set before it finished"), "")

    def _lose(self, payload: JobPayload, error: BaseException, server: str) -> None:
        if payload.get("class") != NAME:
            return
        redis = Installation.of(self._config, server).redis
        fields = _failed(error, (payload.get("retry_count") or 0) + 1)
        arguments = _arguments("lost", KEPT_SECONDS, fields)
        try:
            redis.run(_WRITE, [_key(redis.keys, payload.get("jid", ""))], arguments)
        except RedisFailure as failure:
            self._config.handle_error(failure, {"context": "recording a lost task", "job": payload})


def begin(run: JobContext, how: Mapping[str, Any], started_at: str) -> None:
    """Write that a task runs, and declare the effect that writes its outcome."""
    kept = kept_seconds(how)
    if not kept or not run.process:
        return
    here = Installation.of()

    def arguments(outcome: Outcome, goes: Destination) -> Sequence[Argument]:
        fields: dict[str, str] = {"status": "READY"}
        if isinstance(outcome, Succeeded | Skipped):
            value = run.result if isinstance(outcome, Succeeded) else None
            fields = {"status": "SUCCESSFUL", "return_value": json.dumps(value), "finished_at": _now()}
        elif isinstance(outcome, Failed | Discarded):
            fields = _failed(outcome.error, run.attempt)
            if goes == "retry":
                fields = {"status": "READY", f"error:{run.attempt}": fields[f"error:{run.attempt}"]}
        return _arguments("run", kept if "finished_at" in fields else WAITING_SECONDS, fields)

    effect = Effect(_WRITE, [_key(here.redis.keys, run.jid)], arguments)
    fields = {"status": "RUNNING", f"attempt:{run.attempt}": json.dumps([started_at, run.process])}
    try:
        here.redis.run(_WRITE, effect.keys, _arguments("run", WAITING_SECONDS, fields))
    except RedisFailure as error:  # the task can run, and its outcome will have a state
        here.config.handle_error(error, {"context": "the state of a task", "job": run.payload})
    run.effects += (effect,)


def check_return_value(value: object) -> None:
    """Raise ValueError for a return value that is too large."""
    encode_result(value, MOST_BYTES, "the limit of a return value")


def read(jid: str) -> dict[str, str]:
    """Return the fields of a task; empty without a result. Raises RedisFailure."""
    redis = Installation.of().redis
    return dict(texts(redis.call("HGETALL", _key(redis.keys, jid))))


def kept_seconds(how: Mapping[str, Any]) -> float:
    """Return how long the result of a task is kept, by the settings of its backend; 0: it has none."""
    kept: float = import_module(PACKAGE).task_backends[how["backend"]].kept_seconds
    return kept


def error_fields(error: BaseException) -> dict[str, str]:
    """Return the path of the class, and the traceback, as ``TaskError`` has them."""
    kind = type(error)
    lines = "".join(traceback.format_exception(error))
    return {"exception_class_path": f"{kind.__module__}.{kind.__qualname__}", "traceback": lines}


def _failed(error: BaseException | None, attempt: int) -> dict[str, str]:
    about = error_fields(error or TaskLost("no error"))
    about["traceback"] = about["traceback"][-MOST_TRACEBACK:]
    return {"status": "FAILED", "finished_at": _now(), f"error:{attempt}": json.dumps(about)}


def _now() -> str:
    return str(timezone.now().isoformat())


def _key(keys: Keys, jid: str) -> str:
    return f"{keys.prefix}offsider:task:{jid}"


def _arguments(when: str, life_seconds: float, fields: Mapping[str, str]) -> list[Argument]:
    return [when, int(life_seconds * 1000), *(text for pair in fields.items() for text in pair)]
