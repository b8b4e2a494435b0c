"""The curves: which number of a point varies, and over which range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

BYTES_AT_ONCE = 250_000_000


@dataclass(frozen=True)
class Point:
    """One installation.

    Attributes:
        waiting: jobs in the served queue, whose length is kept; 0: the queue is drained.
        queues: queues of the worker. The jobs are spread over all of them; jobs for the pick-up go to the last one.
        processes: workers of the server; all but one are simulated.
        classes: declared jobs. Each has an equal share of the jobs.
        scheduled: jobs in the schedule, due later.
        payload_bytes: size of the argument.
        jobs: jobs that run while the cost is measured.
        pickups: jobs that are pushed one by one to the idle worker.
        dues: jobs that are scheduled one by one, due in a moment.
        idle_seconds: how long the idle installation is observed.
        until_beat: measure until the heartbeat after the last job has written the metrics of all classes.
        settle_seconds: pause before the idle installation is observed.
    """

    waiting: int = 0
    queues: int = 1
    processes: int = 1
    classes: int = 1
    scheduled: int = 0
    payload_bytes: int = 100
    jobs: int = 60_000
    pickups: int = 60
    dues: int = 0
    idle_seconds: float = 0.0
    until_beat: bool = False
    settle_seconds: float = 1.5


@dataclass(frozen=True)
class Curve:
    """One dimension.

    Attributes:
        name: on the command line, and the name of the figures.
        title: heading and label of the axis.
        values: the points of a full run.
        quick: the points of a quick run.
        at: returns the point of a value.
        figures: names of the figures that the table shows.
    """

    name: str
    title: str
    values: Sequence[int]
    quick: Sequence[int]
    figures: Sequence[str]
    at: Callable[[int], Point]

    def points(self, *, is_quick: bool) -> list[tuple[int, Point]]:
        """Return each value with its point."""
        found: list[tuple[int, Point]] = []
        for value in self.quick if is_quick else self.values:
            point = self.at(value)
            jobs = min(point.jobs, BYTES_AT_ONCE // point.payload_bytes)
            if is_quick:
                point = replace(
                    point,
                    pickups=3,
                    dues=min(point.dues, 2),
                    idle_seconds=min(point.idle_seconds, 0.2),
                    until_beat=False,
                    settle_seconds=0.4,
                )
                jobs = min(jobs, 5_000)  # 500 no-op jobs end within one tick of the kernel, which counts no CPU time
            found.append((value, replace(point, jobs=jobs)))
        return found


COST = ("worker_us", "server_us", "pickup_p50_ms", "pickup_p95_ms", "longest_ms", "worker_mb")
IDLE = ("idle_server_ms", "idle_requests")

CURVES = (
    Curve(
        "length",
        "Jobs in the queue",
        (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
        (2_000,),
        (*COST, "stored_bytes"),
        lambda length: Point(waiting=length),
    ),
    Curve(
        "queues",
        "Queues of a worker",
        (1, 16, 17, 100, 300, 1_000),
        (20,),
        (*COST, *IDLE, "idle_worker_ms", "boot_s"),
        lambda queues: Point(queues=queues, idle_seconds=6),
    ),
    Curve(
        "processes",
        "Workers",
        (1, 10, 50, 100, 250, 500),
        (4,),
        (*COST, "woken_p50_ms", *IDLE, "server_mb"),
        lambda processes: Point(processes=processes, idle_seconds=10),
    ),
    Curve(
        "classes",
        "Declared jobs",
        (1, 10, 100, 500, 2_000),
        (20,),
        (*COST, "beat_bytes", "boot_s"),
        lambda classes: Point(classes=classes, until_beat=True),
    ),
    Curve(
        "scheduled",
        "Scheduled jobs",
        (0, 10_000, 100_000, 1_000_000),
        (1_000,),
        (*COST, "due_p50_ms", "scheduled_bytes"),
        lambda scheduled: Point(scheduled=scheduled, dues=30),
    ),
    Curve(
        "payload",
        "Bytes of the arguments",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        (100_000,),
        (*COST, "push_us", "stored_bytes"),
        lambda size: Point(payload_bytes=size),
    ),
)

#: Head and decimal digits of each figure.
HEADS = {
    "worker_us": ("CPU of the worker, us a job", 1),
    "server_us": ("scripts of the server, us a job", 1),
    "pickup_p50_ms": ("push to start p50, ms", 2),
    "pickup_p95_ms": ("p95, ms", 2),
    "longest_ms": ("longest command, ms", 1),
    "worker_mb": ("worker, MB", 0),
    "server_mb": ("server, MB", 1),
    "stored_bytes": ("server, bytes a job", 0),
    "scheduled_bytes": ("server, bytes a scheduled job", 0),
    "push_us": ("CPU of a bulk push, us a job", 1),
    "idle_server_ms": ("idle: CPU of the server, ms per s", 1),
    "idle_requests": ("idle: reads of the server's sockets per s", 0),
    "idle_worker_ms": ("idle: CPU of the worker, ms per s", 1),
    "boot_s": ("start to first job, s", 2),
    "woken_p50_ms": ("push to wake-up of a waiting worker p50, ms", 2),
    "beat_bytes": ("published by a heartbeat, bytes", 0),
    "due_p50_ms": ("due to start p50, ms", 2),
}
