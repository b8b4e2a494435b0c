"""States and results in Redis: which jobs have them, and for how long.

The options of the job, as its payload has them, precede the defaults of the extension. A job that keeps its result is
tracked.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from offsider.config import test_mode
from offsider.core.clock import as_seconds
from offsider.core.errors import ConfigurationError
from offsider.core.job_id import FailedRun, JobInfo, Progress, State
from offsider.core.wording import listed
from offsider.inspector.finding import Finding, warn
from offsider.storage.effects import ArgumentsOf, Effect
from offsider.storage.hashes import json_value, number, pairs, text
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

if TYPE_CHECKING:
    from offsider.config.installation import Installation

TRACK, KEEP_RESULT = "track", "keep_result"
#: The value of ``track`` that stores the arguments, too.
ARGUMENTS = "arguments"
MAX_LIFE_SECONDS = 366 * 86_400.0
_LUA = files("offsider.ext.results") / "lua"
QUEUED = Script("queued", _LUA)
BEGIN = Script("begin", _LUA)
SETTLE = Script("settle", _LUA)
CANCEL = Script("cancel", _LUA)
PROGRESS = Script("progress", _LUA)
#: Maximum number of failed runs that are stored of a job, by default those of all its retries.
MAX_FAILURES = 25
WAITING = frozenset({"queued", "scheduled", "retrying"})
#: Number of jobs whose memory the doctor measures: the last ones of the classes with the latest ends.
SAMPLES = 200
CLASSES = 20
LARGE_BYTES = 100_000
_FAILED = "failed:"


def check_track(value: object) -> None:
    """Raise ValueError unless the value is a bool or `ARGUMENTS`."""
    if not isinstance(value, bool) and value != ARGUMENTS:
        raise ValueError(f'must be True, False or "{ARGUMENTS}", got {value!r}')


def check_keep_result(value: object) -> None:
    """Raise ValueError unless the value is a duration of at most 366 days, or False."""
    if value is not None and value is not False:
        as_seconds(value, "the duration", at_most=MAX_LIFE_SECONDS)


@dataclass(frozen=True, slots=True)
class ResultSettings:
    """The settings of the extension.

    Attributes:
        track: whether jobs without the option are tracked.
        keep_result_seconds: for jobs without the option; None: their results are not kept.
        keep_state_seconds: life of the state of a job that has ended and does not keep its result.
        keep_waiting_seconds: life of the state of a job that waits or runs, after its last change, or after it is due.
        result_max_bytes: maximum size of a result.
        finished_per_class: maximum number of finished jobs listed for a class.
    """

    track: bool
    keep_result_seconds: float | None
    keep_state_seconds: float
    keep_waiting_seconds: float
    result_max_bytes: int
    finished_per_class: int

    def kept_seconds(self, payload: Mapping[str, Any]) -> float | None:
        """Return how long the result of a job is kept, 0 if it is not; None if the job is not tracked.

        Unusable options of other programs are ignored.
        """
        track, given = payload.get(TRACK), payload.get(KEEP_RESULT)
        kept = None if track is False else self.keep_result_seconds
        if given is not None:
            kept = None
            if given is not False:
                with suppress(ValueError):
                    kept = as_seconds(given, KEEP_RESULT, at_most=MAX_LIFE_SECONDS)
        is_tracked = self.track if track is None else track is True or track == ARGUMENTS
        return kept or (0.0 if is_tracked else None)


def life(name: str, value: float | timedelta) -> float:
    """Return a duration among the arguments of the extension. Raises ConfigurationError."""
    return as_seconds(value, f"Results({name}=…)", at_most=MAX_LIFE_SECONDS, error=ConfigurationError)


def size(name: str, value: int) -> int:
    """Return a size among the arguments of the extension. Raises ConfigurationError."""
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"Results({name}=…): must be a whole number above 0, got {value!r}")
    return value


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
    fields = {text(field): value for field, value in pairs(reply)}
    texts = {field: text(value) for field, value in fields.items() if field != "result"}
    args, kwargs = _parts(texts.get("arguments", ""), 2) or (None, None)
    progress = _parts(texts.get("progress", ""), 3)
    if progress and not all(isinstance(part, int | float | None) for part in progress[:2]):
        progress = None
    info = JobInfo(
        jid=jid,
        state=cast("State", texts.get("state", "untracked")),
        name=texts.get("class", ""),
        changed_at=number(texts.get("at")) or 0.0,
        due_at=number(texts.get("due")),
        process=texts.get("process", ""),
        duration_ms=None if "ms" not in texts else int(number(texts["ms"]) or 0),
        progress=Progress(*progress) if progress else None,
        error_class=texts.get("error_class", ""),
        error_message=texts.get("error_message", ""),
        without_result=texts.get("why", ""),
        started_at=number(texts.get("began")),
        failures=_failures(texts),
        args=args,
        kwargs=kwargs,
    )
    return Stored(info, "ended" in texts, fields.get("result"), "cancel" in texts, texts.get("cancel") == "1")


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


def cancel(redis: Redis, jid: str, *, hard: bool, now: float) -> tuple[str, float | None, bool] | None:
    """Cancel a tracked job, and publish its cancellation to all processes.

    Returns the state of the job before, when it was due, and whether it had ended; None if it is not tracked.
    """
    _, channel, message = cancel_request(redis.keys, jid, hard=hard)
    reply = redis.run(CANCEL, [job_key(redis.keys, jid)], [channel, message, int(hard), repr(now)])
    if not reply:
        return None
    state, due, ended = map(text, reply)
    return state, number(due or None), bool(ended)


def cancel_request(keys: Keys, jid: str, *, hard: bool) -> Command:
    """Return the command that publishes a cancellation to all processes."""
    return ("PUBLISH", cancel_channel(keys), json.dumps([jid, hard]))


def read_cancellation(message: bytes) -> tuple[str, bool] | None:
    """Return the jid of a message, and whether it is hard; None for a message of another program."""
    parts = _parts(message, 2)
    return (str(parts[0]), bool(parts[1])) if parts else None


def progress_command(keys: Keys, jid: str, run: str, progress: Progress) -> Command:
    return PROGRESS.by_text([job_key(keys, jid)], [run, progress_text(progress)])


def progress_text(progress: Progress) -> str:
    return json.dumps([progress.done, progress.total, progress.message])


def failure_fields(failure: FailedRun) -> dict[str, str]:
    return {f"{_FAILED}{failure.attempt % MAX_FAILURES}": json.dumps(astuple(failure))}


def _failures(fields: Mapping[str, str]) -> tuple[FailedRun, ...]:
    found = [_parts(value, 6) for field, value in fields.items() if field.startswith(_FAILED)]
    runs = (FailedRun(*parts) for parts in found if parts and isinstance(parts[2], int | float))
    return tuple(sorted(runs, key=lambda failure: failure.failed_at))


def finished(redis: Redis, name: str, most: int) -> list[FinishedJob]:
    """Return the last finished jobs of a class, the latest first."""
    found: list[FinishedJob] = []
    for raw in redis.call("LRANGE", done_key(redis.keys, name), 0, most - 1):
        with suppress(ValueError):
            state, at, ms, jid, process = text(raw).split(" ", 4)
            found.append(
                FinishedJob(jid, cast("State", state), number(at) or 0.0, None if ms == "-" else int(ms), process)
            )
    return found


def classes(redis: Redis) -> list[tuple[str, float]]:
    """Return the classes with finished jobs, each with the time of the last one, the latest first."""
    reply = redis.call("ZRANGE", classes_key(redis.keys), 0, -1, "REV", "WITHSCORES")
    return [(text(name), float(at)) for name, at in pairs(reply)]


def check_results(server: Installation) -> Iterator[Finding]:
    """Report classes whose results and kept arguments are large on average."""
    redis = server.redis
    large: dict[str, int] = {}
    for name, _ in classes(redis)[:CLASSES]:
        jids = [job.jid for job in finished(redis, name, SAMPLES // CLASSES) if job.state == "succeeded"]
        keys = [job_key(redis.keys, jid) for jid in jids]
        sizes = redis.pipeline([("HSTRLEN", key, field) for key in keys for field in ("result", "arguments")])
        if keys and sum(sizes) / len(keys) > LARGE_BYTES:
            large[name] = sum(sizes) // len(keys)
    if large:
        yield warn(
            "results",
            "large results or arguments: "
            f"{listed(f'{name} ({average // 1000:,} kB)' for name, average in large.items())} on average",
            cause="they are kept in the server's memory until they expire",
            actions=("store the data elsewhere and return its id or path, or lower keep_result or result_max_bytes",),
            subject=next(iter(large)),
            numbers={"average_bytes": max(large.values()), "classes": len(large)},
        )


def _flat(fields: Mapping[str, Argument]) -> list[Argument]:
    return [part for pair in fields.items() for part in pair]


def _ms(duration_seconds: float) -> int:
    return max(1, int(duration_seconds * 1000))


def _parts(stored: str | bytes, count: int) -> list[Any] | None:
    """Return the elements of a JSON list of this length; None for other data."""
    parts = cast("list[Any] | None", json_value(stored))
    return parts if isinstance(parts, list) and len(parts) == count else None
