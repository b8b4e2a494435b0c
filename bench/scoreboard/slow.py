"""More jobs are pushed than workers can run, while a user reads pages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from itertools import cycle

from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from bench.scoreboard.visits import HttpVisits
from offsider import Client
from offsider.core.payload import new_jid

THREADS = 10
JOB_MS = 200
LOOKS_PER_SECOND = 10
TURNS = 5


@row(
    "R24",
    "100 producers push bursts of jobs of 200 ms to 10 threads; for half of the time ten pages a second are requested",
    bar="the queue's latency is right within 5 %; a push takes < 10 ms (p99); page requests slow the drain by <= 5 %; "
    "lost 0",
)
def slow_consumer(ground: Ground, report: Report) -> None:
    producers, half_seconds = ground.pick(smoke=(20, 3.0), full=(100, 30.0))
    server = ground.server()
    fleet = ground.workers(server.url)
    fleet.start("-c", str(THREADS))
    # The producers share one interpreter: simultaneous bursts would measure how long they wait for each other.
    longest_wait_seconds = ground.pick(smoke=0.3, full=3.0)
    waits_seconds = [ground.dice.uniform(0, longest_wait_seconds) for _ in range(producers)]
    # The workers run jobs while the slowest producer still pushes: 30 s in the full tier.
    enough_seconds = 2 * half_seconds + ground.pick(smoke=5, full=45)
    crowd = Crowd(ground, server, waits_seconds, round(enough_seconds * THREADS * 1000 / JOB_MS / producers))
    crowd.push()
    onlooker = Onlooker(server, ground.pages(server))
    quiet = watched = 0
    for _ in range(TURNS):  # in turns, so that a slow phase of the machine affects both
        quiet += effects_within(ground, half_seconds / TURNS)
        onlooker.looking.set()
        watched += effects_within(ground, half_seconds / TURNS)
        onlooker.looking.clear()
    left = int(server.raw.llen("queue:default"))
    errors = onlooker.stop(crowd)
    ground.ledger.until(len(crowd.acked), quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally([*crowd.acked], server)
    report.nothing_missing()
    report.timed(f"jobs waited until the last comparison: {left}", left > 0)
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    p99 = sorted(crowd.push_ms)[int(len(crowd.push_ms) * 0.99)]
    report.timed(f"push p99 < 10 ms: {p99:.1f}", p99 < 10)
    worst = f"{max(errors):.1%}" if errors else "not compared"
    report.timed(f"latency right within 5 %: {worst}", errors and max(errors) <= 0.05)
    slower = 1 - watched / max(quiet, 1)
    report.timed(f"the pages slow the drain by <= 5 %: {slower:.1%}", slower <= 0.05)
    report.figure("push p99", f"{p99:.1f} ms")
    report.figure("latency wrong by at most", worst)
    report.figure("slower while pages are read", f"{slower:.1%}")
    looks = sorted(onlooker.look_ms)
    report.figure("looks", f"{len(looks):,}, median {looks[len(looks) // 2]:.0f} ms, slowest {looks[-1]:.0f} ms")
    wanted = half_seconds * LOOKS_PER_SECOND / 4  # a busy machine sends fewer requests
    report.count(f"pages were requested all the time: {len(looks)}", len(looks) > wanted)
    report.count(
        "every request returned a page" + "".join(f", except {odd}" for odd in onlooker.odd[:3]), not onlooker.odd
    )


class Crowd:
    """Producers that push in bursts of five jobs.

    Args:
        waits_seconds: pauses of each producer, before each of its bursts.
        jobs: number of jobs of each producer.
    """

    def __init__(self, ground: Ground, server: Server, waits_seconds: Sequence[float], jobs: int) -> None:
        self.acked: dict[str, float] = {}
        self.push_ms: list[float] = []
        self._jobs = jobs
        self._threads = [
            threading.Thread(target=self._produce, args=(ground.client(server.url), wait_seconds), daemon=True)
            for wait_seconds in waits_seconds
        ]

    def push(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()

    def _produce(self, client: Client, wait_seconds: float) -> None:
        for number in range(self._jobs):
            if number % 5 == 0:
                time.sleep(wait_seconds)
            jid = new_jid()
            started = time.perf_counter()
            client.push({"class": "scoreboard.Work", "args": [number, JOB_MS], "jid": jid})
            self.push_ms.append((time.perf_counter() - started) * 1000)
            self.acked[jid] = time.time()


class Onlooker:
    """Requests pages repeatedly, and reads the latency that they show."""

    def __init__(self, server: Server, pages: HttpVisits) -> None:
        self._pages = pages
        self._raw = server.raw
        #: duration of each request in ms
        self.look_ms: list[float] = []
        #: requests that did not return a page
        self.odd: list[str] = []
        self._ended = threading.Event()
        #: set while it sends requests
        self.looking = threading.Event()
        self._seen: list[tuple[str, float, float]] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self, crowd: Crowd) -> list[float]:
        """Stop, and return the relative error of each latency."""
        self._ended.set()
        self._thread.join()
        truths = [(crowd.acked[jid], at, told) for jid, at, told in self._seen if jid in crowd.acked]
        return [abs(told - (at - pushed)) / max(at - pushed, 1.0) for pushed, at, told in truths]

    def _look(self) -> None:
        targets = cycle(("/", "/queues", "/queues/default", "/retries", "/busy", "/metrics"))
        while not self._ended.wait(1 / LOOKS_PER_SECOND):
            if not self.looking.is_set():
                continue
            target = next(targets)
            reply = self._pages.get(target)
            self.look_ms.append(reply.seconds * 1000)
            self.odd += [f"{target}: {reply.status}"] if reply.status != 200 else []
            if target == "/queues":
                self._compare()

    def _compare(self) -> None:
        """Record the latency on the queues page, if the oldest job did not change during the request."""
        before = self._raw.lindex("queue:default", -1)
        started = time.time()
        [row] = [row for row in self._pages.data("/queues")["queues"] if row["name"] == "default"]
        at = (started + time.time()) / 2
        if before and before == self._raw.lindex("queue:default", -1):
            self._seen.append((json.loads(before)["jid"], at, row["latency_seconds"]))


def effects_within(ground: Ground, seconds: float) -> int:
    """Return the number of jobs that have their effect within this time."""
    begun = ground.ledger.size()
    time.sleep(seconds)
    return ground.ledger.size() - begun
