"""States and results in Redis.

==================================  ======  ===============================  =================================
key                                 type    written by                       expires
==================================  ======  ===============================  =================================
``offsider:results:job:<jid>``      hash    push, start and outcome of runs  after ``keep_result`` or the state's life
``offsider:results:done:<class>``   list    outcomes (finished jobs)         with the state's life (1,000 jobs)
``offsider:results:classes``        zset    outcomes (class by time)         with the state's life (1,000 classes)
==================================  ======  ===============================  =================================

Fields of the hash: ``state``, ``class``, ``at`` (epoch seconds), ``due``, ``began``, ``process``, ``run`` (while it
runs), ``progress``, ``ms``, ``error_class``, ``error_message``, ``failed:<attempt modulo 25>`` (JSON), ``arguments``
(JSON), ``result`` (JSON), ``why`` (there is no result), ``cancel`` (requested; 1: hard), ``ended``.

Channels: ``offsider:results:job:<jid>`` gets the final state of a job, ``offsider:results:cancel`` the jid of each job
to cancel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from importlib.resources import files
from typing import Any, cast

from offsider.config import test_mode
from offsider.core.job_id import FailedRun, JobInfo, Progress, State
from offsider.core.payload import encode_text
from offsider.ext.results.rules import ResultSettings
from offsider.storage.effects import ArgumentsOf, Effect
from offsider.storage.hashes import json_value, number
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, Command, Script

_LUA = files("offsider.ext.results") / "lua"
QUEUED = Script("queued", _LUA)
BEGIN = Script("begin", _LUA)
SETTLE = Script("settle", _LUA)
CANCEL = Script("cancel", _LUA)
PROGRESS = Script("progress", _LUA)
#: Maximum number of failed runs that are stored of a job, by default those of all its retries.
MAX_FAILURES = 25
_FAILED = "failed:"


def job_key(keys: Keys, jid: str) -> str:
    """The key of a state, and the name of the channel of its end."""
    return f"{keys.prefix}offsider:results:job:{jid}"


def done_key(keys: Keys, name: str) -> str:
    return f"{keys.prefix}offsider:results:done:{name}"


def classes_key(keys: Keys) -> str:
    return f"{keys.prefix}offsider:results:classes"


def cancel_channel(keys: Keys) -> str:
    return f"{keys.prefix}offsider:results:cancel"


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored state.

    Attributes:
        info: what users see; its state is as stored.
        ended: whether the job has ended.
        result: its result as JSON, if it has one.
        cancel: whether its cancellation was requested; ``hard`` as well.
    """

    info: JobInfo
    ended: bool
    result: bytes | None
    cancel: bool
    hard: bool


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A finished job of a class, as its list has it."""

    jid: str
    state: State
    at: float
    duration_ms: int | None
    process: str


def read_command(keys: Keys, jid: str) -> Command:
    return ("HGETALL", job_key(keys, jid))


def parsed(jid: str, reply: Sequence[bytes]) -> Stored:
    """Parse the reply to `read_command`. Of a job without a state, the state is ``untracked``."""
    pairs = zip(reply[::2], reply[1::2], strict=True)
    fields = {field.decode("utf-8", "replace"): value for field, value in pairs}
    text = {field: value.decode("utf-8", "replace") for field, value in fields.items() if field != "result"}
    args, kwargs = _parts(text.get("arguments", ""), 2) or (None, None)
    progress = _parts(text.get("progress", ""), 3)
    if progress and not all(isinstance(part, int | float | None) for part in progress[:2]):
        progress = None
    info = JobInfo(
        jid=jid,
        state=cast("State", text.get("state", "untracked")),
        name=text.get("class", ""),
        changed_at=number(text.get("at")) or 0.0,
        due_at=number(text.get("due")),
        process=text.get("process", ""),
        duration_ms=None if "ms" not in text else int(number(text["ms"]) or 0),
        progress=Progress(*progress) if progress else None,
        error_class=text.get("error_class", ""),
        error_message=text.get("error_message", ""),
        without_result=text.get("why", ""),
        started_at=number(text.get("began")),
        failures=_failures(text),
        args=args,
        kwargs=kwargs,
    )
    return Stored(info, "ended" in text, fields.get("result"), "cancel" in text, text.get("cancel") == "1")


def in_memory(jid: str) -> Stored:
    """Return the state of a job in a test mode."""
    fields = test_mode.states.get(jid, {})
    return parsed(jid, [part if isinstance(part, bytes) else str(part).encode() for part in _flat(fields)])


def read(redis: Redis, jid: str) -> Stored:
    return parsed(jid, redis.call(*read_command(redis.keys, jid)))


def queued(keys: Keys, jid: str, life_seconds: float, fields: Mapping[str, Argument]) -> Effect:
    """Return the effect of a push that writes the first state of a job."""
    return Effect(QUEUED, [job_key(keys, jid)], [_ms(life_seconds), *_flat(fields)])


def begin(redis: Redis, jid: str, life_seconds: float, fields: Mapping[str, Argument]) -> bool:
    """Write that a job runs. False if it was cancelled, and must not run."""
    return not redis.run(BEGIN, [job_key(redis.keys, jid)], [_ms(life_seconds), *_flat(fields)])


@dataclass(frozen=True, slots=True)
class SettledJob:
    """A new state of a job that has run, or was removed.

    Attributes:
        state: the state.
        ended: whether the job has ended.
        life_seconds: how long it is kept.
        at: when, in epoch seconds.
        duration_ms, process: of the run; None and empty without one.
        fields: more fields, such as the result.
    """

    state: State
    ended: bool
    life_seconds: float
    at: float
    duration_ms: int | None
    process: str
    fields: Mapping[str, Argument]

    def in_memory(self, name: str) -> dict[str, Argument]:
        """Return the fields of the state of a job of this class that has ended in a test mode."""
        return {
            **self.fields,
            "state": self.state,
            "class": name,
            "at": repr(self.at),
            "ended": 1,
            "ms": self.duration_ms or 0,
        }

    def arguments(
        self, keys: Keys, jid: str, name: str, rules: ResultSettings, *, only_known: bool = False
    ) -> list[Argument]:
        """Return the arguments of `SETTLE` for a job of this class."""
        channel = job_key(keys, jid) if self.ended else ""
        noted, about = f"- {jid} {self.process}", dict(self.fields)
        if self.duration_ms is not None:
            noted = f"{self.duration_ms} {jid} {self.process}"
            about |= {"ms": self.duration_ms, "process": self.process}
        head: list[Argument] = [self.state, _ms(self.life_seconds), channel, int(only_known), name, repr(self.at)]
        return [*head, rules.finished_per_class, _ms(rules.keep_state_seconds), noted, *_flat(about)]


def settling(keys: Keys, jid: str, name: str, arguments: Sequence[Argument] | ArgumentsOf) -> Effect:
    """Return the effect that writes a new state of a job, for a run with its outcome."""
    return Effect(SETTLE, [job_key(keys, jid), done_key(keys, name), classes_key(keys)], arguments)


def cancel_call(keys: Keys, jid: str, *, hard: bool, now: float) -> Call:
    """Cancel a tracked job, and publish its cancellation to all processes.

    `cancelled` parses the reply.
    """
    _, channel, message = cancel_request(keys, jid, hard=hard)
    return CANCEL, [job_key(keys, jid)], [channel, message, int(hard), repr(now)]


def cancel_request(keys: Keys, jid: str, *, hard: bool) -> Command:
    """Return the command that publishes a cancellation to all processes."""
    return ("PUBLISH", cancel_channel(keys), json.dumps([jid, hard]))


def cancelled(reply: Sequence[bytes]) -> tuple[str, float | None, bool] | None:
    """Parse the reply to `cancel_call`: the state of the job before, when it was due, and whether it had ended.

    None if it is not tracked.
    """
    if not reply:
        return None
    state, due, ended = (part.decode("utf-8", "replace") for part in reply)
    return state, number(due or None), bool(ended)


def read_cancellation(message: bytes) -> tuple[str, bool] | None:
    """Return the jid of a message, and whether it is hard; None for a message of another program."""
    parts = _parts(message, 2)
    return (str(parts[0]), bool(parts[1])) if parts else None


def progress_command(keys: Keys, jid: str, run: str, progress: Progress) -> Command:
    return PROGRESS.by_text([job_key(keys, jid)], [run, progress_text(progress)])


def progress_text(progress: Progress) -> str:
    return json.dumps([progress.done, progress.total, progress.message])


def arguments_field(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, str]:
    return {"arguments": encode_text([args, kwargs])}


def failure_fields(failure: FailedRun) -> dict[str, str]:
    return {f"{_FAILED}{failure.attempt % MAX_FAILURES}": json.dumps(astuple(failure))}


def _failures(text: Mapping[str, str]) -> tuple[FailedRun, ...]:
    found = [_parts(value, 6) for field, value in text.items() if field.startswith(_FAILED)]
    runs = (FailedRun(*parts) for parts in found if parts and isinstance(parts[2], int | float))
    return tuple(sorted(runs, key=lambda failure: failure.failed_at))


def finished(redis: Redis, name: str, most: int) -> list[FinishedJob]:
    """Return the last finished jobs of a class, the latest first."""
    found: list[FinishedJob] = []
    for raw in redis.call("LRANGE", done_key(redis.keys, name), 0, most - 1):
        with suppress(ValueError):
            state, at, ms, jid, process = raw.decode("utf-8", "replace").split(" ", 4)
            found.append(
                FinishedJob(jid, cast("State", state), number(at) or 0.0, None if ms == "-" else int(ms), process)
            )
    return found


def classes(redis: Redis) -> list[tuple[str, float]]:
    """Return the classes with finished jobs, each with the time of the last one, the latest first."""
    reply = redis.call("ZRANGE", classes_key(redis.keys), 0, -1, "REV", "WITHSCORES")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [(name.decode("utf-8", "replace"), float(at)) for name, at in pairs]


def _flat(fields: Mapping[str, Argument]) -> list[Argument]:
    return [part for pair in fields.items() for part in pair]


def _ms(duration_seconds: float) -> int:
    return max(1, int(duration_seconds * 1000))


def _parts(text: str | bytes, count: int) -> list[Any] | None:
    """Return the elements of a JSON list of this length; None for other data."""
    parts = cast("list[Any] | None", json_value(text))
    return parts if isinstance(parts, list) and len(parts) == count else None
