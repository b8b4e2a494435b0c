"""The link between a worker and its parent: a pair of stream sockets that carries one JSON message per line.

1. The worker reports at each beat and at each change. A report is complete: it has all that the parent needs to beat
   for the worker, and to requeue its jobs.
2. Both ends close on exec, and forked children close theirs. So the parent sees the end of the stream when the worker
   exits or executes another program, and the worker when its parent has died.
3. The worker never blocks: while the buffer is full it drops reports, because the next one suffices, and keeps counts.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.health_state import LEFT, CountedRuns, Report

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_READ_BYTES = 256 * 1024


def make_link() -> tuple[WorkerLink, socket.socket]:
    """Return the parent's end, and the socket of the worker's end."""
    parents, workers = socket.socketpair()
    return WorkerLink(parents), workers


class WorkerLink:
    """The parent's end.

    Attributes:
        stop_seconds: maximum duration of a stop that the worker reported; None until it runs.
        closed: whether the worker has closed its end.
        report: the last report, as received; empty before the first.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._end.setblocking(False)
        self._rest = b""
        self.stop_seconds: float | None = None
        self.closed = False
        self.report = ""

    def fileno(self) -> int:
        return self._end.fileno()

    def receive(self) -> list[Report | CountedRuns]:
        """Return the messages that have arrived."""
        messages: list[Report | CountedRuns] = []
        while not self.closed:
            try:
                data = self._end.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.closed = not data
            *lines, self._rest = (self._rest + data).split(b"\n")
            messages += filter(None, map(self.message_of, lines))
        return messages

    def message_of(self, line: bytes) -> Report | CountedRuns | None:
        """Return the decoded message; None if another version wrote it, and it cannot be read."""
        try:
            told = json.loads(line)
            if counted := told.get("counted"):
                return CountedRuns(tuple(map(_series_of, counted["series"])), counted["busy"], counted["concurrency"])
            report = _report_of(told)
        except (ValueError, TypeError, KeyError, AttributeError):  # of another version: no message may end the parent
            return None
        self.report, self.stop_seconds = line.decode(), report.stop_seconds
        return report

    def bequeath(self) -> int:
        """Return the file descriptor for the next program of this process."""
        self._end.set_inheritable(True)
        return self._end.fileno()

    @classmethod
    def inherit(cls, fd: int) -> WorkerLink:
        """Restore the end from a file descriptor of `bequeath`."""
        end = socket.socket(fileno=fd)
        end.set_inheritable(False)
        return cls(end)

    def close(self) -> None:
        self._end.close()


class ParentLink:
    """The worker's end. Thread-safe; never blocks, never raises."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._end.setblocking(False)
        self._complete: Callable[[Report], Report] = lambda report: report
        self._lock = threading.Lock()
        self._rest = b""
        self._last: Report | None = None
        self._stop_seconds: float | None = None
        self._uncounted: list[Series] = []
        os.register_at_fork(after_in_child=self._end.close)

    def fileno(self) -> int:
        """Descriptor for a poll; readable once the parent has died."""
        return self._end.fileno()

    def closed(self) -> bool:
        """Whether the parent has died."""
        try:
            return not self._end.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def use(self, complete: Callable[[Report], Report]) -> None:
        """Call ``complete`` at each report from now on, to add the current state."""
        self._complete = complete

    def say_ready(self, stop_seconds: float) -> None:
        """Report that the worker runs, and that its stop takes at most ``stop_seconds``."""
        with self._lock:
            self._stop_seconds = stop_seconds
            self._report(always=True)

    def owns(self, lists: Lists, life_ms: int, redis: RedisSettings) -> None:
        """Report that the worker owns these lists from now on, and has just sent a liveness beat."""
        # The configuration's section has more fields.
        settings = RedisSettings(**{item.name: getattr(redis, item.name) for item in fields(RedisSettings)})
        with self._lock:
            self._last = Report(lists, life_ms, settings)
            self._report(beaten=True)

    def repeat(self) -> None:
        """Repeat the report with the current state. Does nothing before the first `owns` and after `left`."""
        with self._lock:
            self._report()

    def left(self) -> None:
        """Report that the worker has left the registries and its lists are empty, so its end needs no action."""
        with self._lock:
            self._report(state=LEFT, always=True)
            self._last = None

    def count(self, series: Sequence[Series], busy: int, concurrency: int) -> None:
        """Send the counts since the last call; if there is no room, they are sent with the next call."""
        with self._lock:
            self._uncounted += series
            counted = CountedRuns(self._uncounted, busy, concurrency)
            if self._send({"counted": asdict(counted)}):
                self._uncounted = []

    def _report(self, *, always: bool = False, **changes: Any) -> None:
        if self._last is not None:
            report = replace(self._complete(self._last), stop_seconds=self._stop_seconds, **changes)
            self._send(asdict(report), always=always)

    def _send(self, message: Mapping[str, object], *, always: bool = False) -> bool:
        """Send a message, or the rest of one that is under way; False if this message was dropped."""
        taken = always or not self._rest
        if taken:
            self._rest += json.dumps(message).encode() + b"\n"
        try:
            while self._rest:
                self._rest = self._rest[self._end.send(self._rest) :]
        except BlockingIOError:
            pass
        except OSError:  # the parent has died: the main loop stops the worker
            self._rest = b""
        return taken

    def close(self) -> None:
        self._end.close()


def _series_of(told: Mapping[str, Any]) -> Series:
    """Return the counts of a decoded message. Raises ValueError if its histograms have other buckets than ours."""
    series = Series(told["labels"])
    series.add(known_fields(Series, told))
    return series


def _report_of(told: Mapping[str, Any]) -> Report:
    """Return the report of a decoded message, without unknown fields, and with defaults for missing ones."""
    (identity, queues, *_), redis = told["lists"], told["redis"]
    return known_fields(Report, {
        **told,
        "lists": Lists(identity, {capsule: tuple(names) for capsule, names in queues.items()}),
        "redis": known_fields(RedisSettings, {**redis, "sentinels": tuple(redis.get("sentinels", ()))}),
        "stuck": tuple(told.get("stuck", ())),
    })  # fmt: skip


Made = TypeVar("Made", bound="DataclassInstance")


def known_fields(kind: type[Made], told: Mapping[str, Any]) -> Made:
    """Return an instance of a dataclass from the fields that another version has written."""
    return kind(**{item.name: told[item.name] for item in fields(kind) if item.name in told})
