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
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.health_state import READY

#: State of a worker that has left the registries: the parent has nothing to do for it.
LEFT = "left"
_READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class Report:
    """The state of one worker.

    Attributes:
        lists: its identity and its private lists.
        life_ms: how long a beat keeps it alive.
        redis: server of its lists.
        state: a state of `health_state`, or ``"left"``.
        stuck: faults that the worker has detected in itself.
        max_strikes: ``worker.max_strikes`` after the application's configuration.
        beaten: the worker has just sent a liveness beat.
    """

    lists: Lists
    life_ms: int
    redis: RedisSettings
    state: str = READY
    stuck: tuple[str, ...] = ()
    max_strikes: int = 3
    beaten: bool = False


@dataclass(frozen=True)
class CountedRuns:
    """Counts of a worker since its last message, and the number of its running jobs and of its threads."""

    series: Sequence[Series] = ()
    busy: int = 0
    concurrency: int = 0


class WorkerStatus(NamedTuple):
    """The part of a report that only the worker can fill in; see `Report`."""

    state: str = READY
    stuck: tuple[str, ...] = ()
    max_strikes: int = 3


def make_link() -> tuple[WorkerLink, socket.socket]:
    """Return the parent's end, and the socket of the worker's end."""
    parents, workers = socket.socketpair()
    return WorkerLink(parents), workers


class WorkerLink:
    """The parent's end.

    Attributes:
        stop_seconds: maximum duration of a stop that the worker reported; None until it is ready.
        closed: whether the worker has closed its end.
        report: the last report, as received; empty before the first.
    """

    def __init__(self, end: socket.socket, *, stop_seconds: float | None = None) -> None:
        self._end = end
        self._end.setblocking(False)
        self._rest = b""
        self.stop_seconds = stop_seconds
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
            messages += filter(None, map(self._message, lines))
        return messages

    def _message(self, line: bytes) -> Report | CountedRuns | None:
        try:
            told = json.loads(line)
            if "ready" in told:
                self.stop_seconds = float(told["ready"])
                return None
            if "counted" in told:
                counted = told["counted"]
                series = tuple(Series(**each) for each in counted["series"])
                return CountedRuns(series, counted["busy"], counted["concurrency"])
            report = report_of(told)
        except (ValueError, TypeError, KeyError):  # of another version: no message may end the parent
            return None
        self.report = line.decode()
        return report

    def bequeath(self) -> int:
        """Return the file descriptor for the next program of this process."""
        self._end.set_inheritable(True)
        return self._end.fileno()

    @classmethod
    def inherit(cls, fd: int, stop_seconds: float | None) -> WorkerLink:
        """Restore the end from a file descriptor of `bequeath`."""
        end = socket.socket(fileno=fd)
        end.set_inheritable(False)
        return cls(end, stop_seconds=stop_seconds)

    def close(self) -> None:
        self._end.close()


class ParentLink:
    """The worker's end. Thread-safe; never blocks, never raises."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._end.setblocking(False)
        self._status: Callable[[], WorkerStatus] = WorkerStatus
        self._lock = threading.Lock()
        self._rest = b""
        self._last: tuple[Lists, int, RedisSettings] | None = None
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

    def use(self, status: Callable[[], WorkerStatus]) -> None:
        """Call ``status`` at each report from now on."""
        self._status = status

    def say_ready(self, stop_seconds: float) -> None:
        """Report that the worker runs, and that its stop takes at most ``stop_seconds``."""
        with self._lock:
            self._send({"ready": stop_seconds}, always=True)

    def owns(self, lists: Lists, life_ms: int, redis: RedisSettings) -> None:
        """Report that the worker owns these lists from now on, and has just sent a liveness beat."""
        with self._lock:
            self._last = (lists, life_ms, redis)
            self._report(beaten=True)

    def repeat(self) -> None:
        """Repeat the report with the current state. Does nothing before the first `owns` and after `left`."""
        with self._lock:
            self._report()

    def left(self) -> None:
        """Report that the worker has left the registries and its lists are empty, so its end needs no action."""
        with self._lock:
            self._report(LEFT)
            self._last = None

    def count(self, series: Sequence[Series], busy: int, concurrency: int) -> None:
        """Send the counts since the last call; if there is no room, they are sent with the next call."""
        with self._lock:
            self._uncounted += series
            counted = CountedRuns(self._uncounted, busy, concurrency)
            if self._send({"counted": asdict(counted)}):
                self._uncounted = []

    def _report(self, state: str = "", *, beaten: bool = False) -> None:
        if self._last is None:
            return
        lists, life_ms, redis = self._last
        now = self._status()
        told = {
            "identity": lists.identity,
            "queues": dict(lists.queues),
            "life_ms": life_ms,
            "redis": {item.name: getattr(redis, item.name) for item in fields(RedisSettings)},
            "state": state or now.state,
            "stuck": now.stuck,
            "max_strikes": now.max_strikes,
            "beaten": beaten,
        }
        self._send(told, always=state == LEFT)

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


def report_of(told: Mapping[str, Any]) -> Report:
    """Return the report of a decoded message."""
    redis: dict[str, Any] = {**told["redis"], "sentinels": tuple(told["redis"]["sentinels"])}
    queues: Mapping[str, Sequence[str]] = {capsule: tuple(names) for capsule, names in told["queues"].items()}
    return Report(
        Lists(told["identity"], queues),
        told["life_ms"],
        RedisSettings(**redis),
        told["state"],
        tuple(told["stuck"]),
        told["max_strikes"],
        told["beaten"],
    )
