"""Measures one point: fills a server, starts workers, and reads their CPU time, memory and latency."""

from __future__ import annotations

import os
import random
import statistics
import string
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.compare.machine import memory_mb, tree
from bench.place import PATIENCE_SECONDS, ROOT, Place
from bench.report import quantile
from bench.scale.app import Record
from bench.scale.curves import Point
from offsider.config.installation import Installation
from offsider.storage import processes, queues
from tests.waiting import wait_for

#: Jobs before and after the measured ones, as a share of those.
MARGIN = 0.2
#: A served queue is refilled by this number of jobs.
REFILL = 500
#: Elements that the server looks at to estimate the memory of a key.
SAMPLES = 1_000
SLOW_MICROSECONDS = 500
PICKUP, FLEET = "picked", "fleet"


def measure(point: Point) -> dict[str, float]:
    """Return the figures of a point.

    Raises:
        RuntimeError: the worker has ended.
        AssertionError: it makes no progress.
    """
    with Place(persist=False) as place:
        return _Run(point, place).figures()


@dataclass(frozen=True)
class _Look:
    """Totals so far: finished jobs, nanoseconds of CPU, and statistics of the server."""

    at: float
    finished: int
    worker_ns: int
    server_ns: int
    script_us: float
    requests: float


def cpu_ns(pid: int) -> int:
    """Return the CPU time of all living threads of a process, in nanoseconds; 0 if it has ended."""
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text("ascii").split()[0])
    return total


class _Run:
    def __init__(self, point: Point, place: Place) -> None:
        self._point, self._place, self._raw = point, place, place.raw
        self._client = place.client()
        self._client.config.client.large_payloads = "off"  # no warning for each of them
        self._redis = Installation.of(self._client.config).redis
        self._record = Record(place.folder / "record", point.pickups + point.dues)
        self._names = [f"work{number}" for number in range(point.queues)]
        self._filling = "".join(random.choices(string.ascii_letters, k=point.payload_bytes))  # does not shrink
        self._pushed = 0

    def figures(self) -> dict[str, float]:
        point, found = self._point, dict[str, float]()
        margin = int(point.jobs * MARGIN)
        if point.scheduled:
            self._schedule(point.scheduled)
            found["scheduled_bytes"] = self._size(self._redis.keys.schedule) / point.scheduled
        self._raw.config_set("slowlog-log-slower-than", SLOW_MICROSECONDS)
        self._raw.config_set("latency-monitor-threshold", 1)
        to_push = point.waiting or point.jobs + 2 * margin
        cpu = time.process_time_ns()
        self._fill(to_push)
        found["push_us"] = (time.process_time_ns() - cpu) / to_push / 1000
        found["stored_bytes"] = sum(map(self._size, map(self._redis.keys.queue, self._names))) / to_push
        with self._fleet(point.processes - 1), self._worker() as worker:
            started = time.monotonic()
            self._reach(1, worker)
            found["boot_s"] = time.monotonic() - started
            self._reach(margin, worker)
            self._raw.slowlog_reset()
            self._raw.latency_reset()
            before = self._look(worker)
            self._reach(margin + point.jobs, worker)
            if point.until_beat:
                self._await_end_and_beat(worker)
            after = self._look(worker)
            jobs = after.finished - before.finished
            found["worker_us"] = (after.worker_ns - before.worker_ns) / jobs / 1000
            found["server_us"] = (after.script_us - before.script_us) / jobs
            found["longest_ms"] = self._longest_ms()
            found["worker_mb"] = sum(memory_mb(pid)[1] for pid in tree(worker.pid))
            self._become_idle(worker)
            found["server_mb"] = self._raw.info("memory")["used_memory"] / 2**20
            if point.idle_seconds:
                found |= self._idle(worker)
            found |= self._pick_up()
            found["beat_bytes"] = self._published()
        return found

    # --- jobs

    def _size(self, key: str) -> int:
        return int(self._raw.memory_usage(key, samples=SAMPLES) or 0)

    def _schedule(self, count: int) -> None:
        arguments = ([self._filling] for _ in range(count))
        later = time.time() + 86_400
        times = (later + number for number in range(count))
        self._client.push_bulk({"class": "scale.noop0", "queue": "work0", "args": arguments, "at": times})

    def _fill(self, count: int) -> None:
        """Push no-op jobs, in turns for each class and queue."""
        point = self._point
        kinds = max(point.classes, point.queues)
        size = max(1, min(1_000, count // kinds, 2_000_000 // point.payload_bytes))
        # With many classes the jobs of one are not beside each other, as in a real queue.
        size = size if point.classes == 1 and not point.until_beat else min(size, 5)
        while count > 0:
            turn = self._pushed
            items = {
                "class": f"scale.noop{turn % point.classes}",
                "queue": self._names[turn % point.queues],
                "args": [[self._filling]] * min(size, count),
            }
            self._client.push_bulk(items)
            self._pushed, count = turn + 1, count - size

    def _reach(self, finished: int, worker: subprocess.Popen[bytes]) -> None:
        """Wait until the worker has finished this number of jobs; keep the length of the queue, if it has one."""

        def has_reached() -> bool:
            if worker.poll() is not None:
                log = (self._place.folder / "worker.log").read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"the worker has ended: {log}")
            waiting = self._point.waiting
            if waiting and (queues.lengths(self._redis, ["work0"])["work0"] or 0) <= waiting - REFILL:
                self._fill(REFILL)
            return self._record.finished >= finished

        wait_for(has_reached, PATIENCE_SECONDS)

    def _await_end_and_beat(self, worker: subprocess.Popen[bytes]) -> None:
        self._reach(self._point.jobs + 2 * int(self._point.jobs * MARGIN) - 20, worker)
        ended = time.time()
        wait_for(lambda: self._beaten_at() >= ended, PATIENCE_SECONDS)
        time.sleep(0.1)  # the metrics are written before the beat

    def _beaten_at(self) -> float:
        hashes = processes.hashes(self._redis, processes.identities(self._redis))
        return max((float(fields["beat"]) for fields in hashes.values()), default=0.0)

    def _become_idle(self, worker: subprocess.Popen[bytes]) -> None:
        if self._point.waiting:
            self._redis.call("SADD", self._redis.keys.paused, *self._names)
        else:
            self._reach(self._point.jobs + 2 * int(self._point.jobs * MARGIN) - 20, worker)
        time.sleep(self._point.settle_seconds)

    def _published(self) -> float:
        """Return the bytes that a heartbeat writes to publish the declared jobs of a worker."""
        keys = map(self._redis.keys.process, processes.identities(self._redis))
        return max((float(self._raw.hstrlen(key, processes.JOBS)) for key in keys), default=0.0)

    # --- processes

    def _worker(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        # The long queue is paused while jobs are picked up, and so needs another one beside it.
        served = [*self._names, PICKUP] if self._point.waiting else self._names
        return self._place.worker(
            *(word for name in served for word in ("-q", name)),
            app="bench.scale.app",
            OFFSIDER_SCALE_RECORD=str(self._place.folder / "record"),
            OFFSIDER_SCALE_CLASSES=str(self._point.classes),
        )

    @contextmanager
    def _fleet(self, count: int) -> Generator[None]:
        if not count:
            yield
            return
        (self._place.folder / "woken").touch()
        words = [self._place.url, str(count), FLEET, str(self._place.folder / "woken")]
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "bench.scale.fleet", *words]
        process = subprocess.Popen(command, cwd=self._place.folder, env=environ, stdout=subprocess.PIPE)
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the fleet did not start")
            time.sleep(self._point.settle_seconds)
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)

    # --- figures

    def _look(self, worker: subprocess.Popen[bytes]) -> _Look:
        commands = self._raw.info("commandstats")
        scripts = (commands.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "eval"))
        return _Look(
            time.monotonic(),
            self._record.finished,
            sum(map(cpu_ns, tree(worker.pid))),
            cpu_ns(self._place.pid),
            float(sum(scripts)),
            float(self._raw.info()["total_reads_processed"]),
        )

    def _longest_ms(self) -> float:
        """Return the duration of the slowest command; the slow log omits EXEC, the monitor has whole milliseconds."""
        logged = [entry["duration"] / 1000 for entry in self._raw.slowlog_get(128)]
        events = self._raw.latency_latest()
        seen = [float(event[3]) for event in events if event[0] in (b"command", b"fast-command")]
        return max(logged + seen, default=0.0)

    def _idle(self, worker: subprocess.Popen[bytes]) -> dict[str, float]:
        before = self._look(worker)
        time.sleep(self._point.idle_seconds)
        after = self._look(worker)
        seconds = after.at - before.at
        return {
            "idle_worker_ms": (after.worker_ns - before.worker_ns) / 1e6 / seconds,
            "idle_server_ms": (after.server_ns - before.server_ns) / 1e6 / seconds,
            "idle_requests": (after.requests - before.requests) / seconds,
        }

    def _pick_up(self) -> dict[str, float]:
        point = self._point
        queue = PICKUP if point.waiting else self._names[-1]
        found = _middles("pickup", [self._picked(place, queue) for place in range(point.pickups)])
        if point.dues:
            places = range(point.pickups, point.pickups + point.dues)
            found |= _middles("due", [self._picked(place, queue, random.uniform(0.02, 0.06)) for place in places])
        if point.processes > 1:
            found |= _middles("woken", self._woken())
        return found

    def _picked(self, place: int, queue: str, delay_seconds: float = 0.0) -> float:
        """Push a job, and return the milliseconds until its start, counted from its due time."""
        item: dict[str, Any] = {"class": "scale.picked", "queue": queue, "args": [place]}
        time.sleep(random.uniform(0.005, 0.015))
        pushed_ns = time.monotonic_ns()
        if delay_seconds:
            item["at"] = time.time() + delay_seconds
        self._client.push(item)
        wait_for(lambda: self._record.started(place), PATIENCE_SECONDS)
        return (self._record.started(place) - pushed_ns) / 1e6 - delay_seconds * 1000

    def _woken(self) -> list[float]:
        """Wake simulated workers, and return the milliseconds that it took."""
        log = self._place.folder / "woken"
        for number in range(self._point.pickups):
            item = {"class": "scale.picked", "queue": FLEET, "args": [time.monotonic_ns()]}
            self._client.push(item)
            wait_for(lambda: log.read_text().count("\n") > number, PATIENCE_SECONDS)  # noqa: B023 - called here only
        return [float(line) * 1000 for line in log.read_text().split()]


def _middles(name: str, milliseconds: list[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    return {f"{name}_p50_ms": statistics.median(ordered), f"{name}_p95_ms": quantile(ordered, 0.95)}
