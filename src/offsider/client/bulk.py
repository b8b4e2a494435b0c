"""Bulk pushes: splits jobs of one class into batches, and prepares each job. No I/O.

Jobs are read from the iterable batch by batch, so a generator of millions of calls needs the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from datetime import timedelta
from itertools import islice, repeat
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

from offsider.client.alike import Alike, Pushes, push_like
from offsider.client.prepared import CallLike, DeclaredJob, declared_of
from offsider.client.preparer import Preparer
from offsider.client.times import When, due_at
from offsider.core.clock import as_seconds
from offsider.core.errors import InvalidArguments, InvalidOptions
from offsider.core.payload import new_jids
from offsider.runtime.middleware import Push

BATCH_SIZE = 1_000
SCHEDULED_BATCH_SIZE = 100  # a long ZADD blocks the server, a long LPUSH does not
MIN_SPREAD_SECONDS = 5.0  # as in Sidekiq, whose scheduler polls about this often
_NO_MORE = object()
_LISTS = frozenset({list, tuple})
_NO_KWARGS: Mapping[str, Any] = MappingProxyType({})
Arguments: TypeAlias = tuple[list[Any], dict[str, Any]]


class Bulk(NamedTuple):
    """A checked bulk push.

    Attributes:
        template: the push that each job copies.
        calls: the arguments of each job.
        times: the due time of each job.
        is_timed: whether the jobs are scheduled.
        timed_singly: each job has its own time; otherwise ``times`` is infinite.
        jid: the id of the only job, if given.
    """

    template: Push
    calls: Iterator[Any]
    times: Iterator[Any]
    is_timed: bool
    timed_singly: bool
    batch_size: int
    jid: str | None

    def pushes(self, now: float) -> Iterator[Pushes]:
        """Yield batches, before client middleware."""
        ahead: list[Any] = []
        while calls := [*ahead, *islice(self.calls, self.batch_size - len(ahead))]:
            pushes = self._pushes(calls, now)
            if self.timed_singly:  # report surplus times before the last batch is stored
                ahead = list(islice(self.calls, 1))
                self._refuse_times_left(ahead)
            yield pushes
        self._refuse_times_left(ahead)

    def _pushes(self, calls: Sequence[Any], now: float) -> Pushes:
        jids = new_jids(len(calls)) if self.jid is None else [self.jid]
        singly = self.is_timed or self.jid is not None  # Alike requires jids of ours, after args
        positional = None if singly else self._positional(calls)
        if positional is None:
            arguments = self._arguments(calls)
            if singly or any(kwargs for _, kwargs in arguments):
                return [self._push(*pair, jid, now) for pair, jid in zip(arguments, jids, strict=True)]
            positional = [args for args, _ in arguments]
        template = Push(payload=self.template.payload.copy(), job=self.template.job, server=self.template.server)
        return Alike(template, positional, jids)

    def _positional(self, calls: Sequence[Any]) -> list[list[Any]] | None:
        """Return the arguments of calls that need no binding: positional ones that fit. None if others are among them.

        Most bulk pushes are such; binding each call takes ten times as long.
        """
        job = cast("DeclaredJob | None", self.template.job)
        lengths = [*map(len, calls)] if set(map(type, calls)) <= _LISTS else []
        if not lengths or not (job is None or job.fits(min(lengths), max(lengths))):
            return None
        return [*map(list, calls)]

    def _push(self, args: list[Any], kwargs: dict[str, Any], jid: str, now: float) -> Push:
        push = push_like(self.template, args, jid)
        if kwargs:
            push.payload["kwargs"] = kwargs
        due = self._next_time(now)
        if due is not None:
            push.payload["at"] = due
        return push

    def _arguments(self, calls: Sequence[Any]) -> list[Arguments]:
        job = cast("DeclaredJob | None", self.template.job)
        found: list[Arguments] = []
        for call in calls:
            args, kwargs = call, _NO_KWARGS
            if not isinstance(call, (list, tuple)):
                args, kwargs = self._of_call(call)
            found.append((list(args), {}) if job is None else job.bind(args, kwargs))
        return found

    def _of_call(self, call: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
        name, job = self.template.payload["class"], self.template.job
        if not hasattr(call, "kwargs"):  # not isinstance: for a Protocol that is slow
            raise InvalidArguments(
                f"{name}: bulk arguments must be a list for each job, like [[1], [2]], got {type(call).__name__}"
            )
        given = cast(CallLike, call)
        if job is not None and given.declared is not job:
            raise InvalidArguments(f"{name}: got a call of another job, {given.declared.name}")
        return given.args, given.kwargs

    def _next_time(self, now: float) -> float | None:
        when = next(self.times, _NO_MORE)
        if when is _NO_MORE:
            raise InvalidOptions("at must contain one time for each job; it contains fewer")
        return None if when is None else due_at(cast(When, when), now)

    def _refuse_times_left(self, calls_left: list[Any]) -> None:
        if self.timed_singly and not calls_left and next(self.times, _NO_MORE) is not _NO_MORE:
            raise InvalidOptions("at must contain one time for each job; it contains more")


def plan(
    preparer: Preparer, items: Mapping[str, Any], batch_size: int | None, spread_interval: float | timedelta | None
) -> Bulk:
    """Check a bulk push before any job is stored.

    Raises:
        InvalidJob: as for a push; also for ``at`` with ``spread_interval``, ``at`` of another length, a ``jid`` for
            several jobs, or a batch size below 1.
    """
    template = dict(items)
    args = template.get("args")
    at = template.pop("at", None)
    batch_size = _given_once(template, "batch_size", batch_size)
    spread_interval = _given_once(template, "spread_interval", spread_interval)
    jid = template.get("jid")
    is_timed = at is not None or spread_interval is not None
    calls = iter(_checked_calls(template.get("class"), args))
    if jid is not None:
        calls = _only_one(calls)
    return Bulk(
        template=preparer.build_template(template),
        calls=calls,
        times=_times(preparer, at, args, spread_interval),
        is_timed=is_timed,
        timed_singly=_is_many(at),
        batch_size=_checked_size(batch_size, scheduled=is_timed),
        jid=jid,
    )


def _given_once(template: dict[str, Any], name: str, value: Any) -> Any:
    """Read an option from the arguments or, as in Ruby, from the items."""
    item = template.pop(name, None)
    if item is not None and value is not None:
        raise InvalidOptions(f"{name} is given both as an item and as an argument; use one of them")
    return item if value is None else value


def _checked_calls(job: object, args: Any) -> Iterable[Any]:
    """Return the arguments of a bulk push. Raises InvalidArguments unless they are an iterable of calls."""
    if not isinstance(args, Iterable) or isinstance(args, str | bytes | Mapping):
        declared, kind = declared_of(job), type(cast("object", args)).__name__
        name = declared.name if declared else job
        raise InvalidArguments(f"{name}: bulk arguments must be an iterable with a list for each job, got {kind}")
    return cast(Iterable[Any], args)  # type: ignore[redundant-cast]  # pyright lost the type at Mapping


def _only_one(calls: Iterator[Any]) -> Iterator[Any]:
    first = list(islice(calls, 2))
    if len(first) > 1:
        raise InvalidOptions("a jid is valid for one job only; omit it for several jobs")
    return iter(first)


def _times(preparer: Preparer, at: Any, args: Any, spread_interval: float | timedelta | None) -> Iterator[Any]:
    if at is not None and spread_interval is not None:
        raise InvalidOptions("at and spread_interval exclude each other; give one of them")
    if spread_interval is not None:
        within = as_seconds(spread_interval, "spread_interval", error=InvalidOptions)
        return _spread(preparer.config.random, max(within, MIN_SPREAD_SECONDS))
    if not _is_many(at):
        if at is not None:
            due_at(cast(When, at), 0.0)  # an invalid time raises even without jobs
        return repeat(at)
    if isinstance(at, Sized) and isinstance(args, Sized) and len(at) != len(args):
        raise InvalidOptions(f"at must contain one time for each job: got {len(at)} for {len(args)}")
    return iter(cast("Iterable[Any]", at))


def _is_many(at: Any) -> bool:
    return isinstance(at, Iterable) and not isinstance(at, str)


def _spread(random: Random, within_seconds: float) -> Iterator[float]:
    return (random.random() * within_seconds for _ in repeat(None))


def _checked_size(size: object, *, scheduled: bool) -> int:
    if size is None:
        return SCHEDULED_BATCH_SIZE if scheduled else BATCH_SIZE
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidOptions(f"batch_size must be a whole number of 1 or more, got {size!r}")
    return size
