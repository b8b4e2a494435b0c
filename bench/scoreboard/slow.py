"""More is pushed than workers can take, and somebody keeps looking."""

from __future__ import annotations

import json
import threading
import time
from itertools import islice

from bench.scoreboard.ground import Ground, until
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from offsider import Client, Config
from offsider.core.payload import new_jid
from offsider.inspector import Queue, RetrySet, Stats

THREADS = 10
JOB_MS = 200
LOOKS_PER_SECOND = 10


@row(
    "R24",
    "100 producers push bursts of jobs of 200 ms to 10 threads; in the second half the inspector reads everything "
    "ten times a second",
    bar="the queue's latency is right within 5 %; a push takes < 10 ms (p99); looking slows the drain by <= 5 %; "
    "lost 0",
)
def slow_consumer(ground: Ground, report: Report) -> None:
    producers, half_seconds = ground.pick(smoke=(20, 3.0), full=(100, 30.0))
    server = ground.server()
    fleet = ground.workers(server.url)
    fleet.start("-c", str(THREADS))
    enough_seconds = 2 * half_seconds + ground.pick(smoke=5, full=15)
    crowd = Crowd(ground, server, producers, jobs=round(enough_seconds * THREADS * 1000 / JOB_MS / producers))
    crowd.push()
    quiet_rate = effects_per_second(ground, half_seconds)
    onlooker = Onlooker(server)
    watched_rate = effects_per_second(ground, half_seconds)
    errors = onlooker.stop(crowd)
    ground.ledger.until(len(crowd.acked), quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally([*crowd.acked], server)
    report.nothing_missing()
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    p99 = sorted(crowd.push_ms)[int(len(crowd.push_ms) * 0.99)]
    report.timed(f"push p99 < 10 ms: {p99:.1f}", p99 < 10)
    worst = max(errors, default=1.0)
    report.timed(f"latency right within 5 %: {worst:.1%}", worst <= 0.05)
    slower = 1 - watched_rate / quiet_rate
    report.timed(f"looking slows the drain by <= 5 %: {slower:.1%}", slower <= 0.05)
    report.figure("push p99", f"{p99:.1f} ms")
    report.figure("latency wrong by at most", f"{worst:.1%}")
    report.figure("slower when looked at", f"{slower:.1%}")
    report.partial.append("pages as HTML: the inspector is read in their place")


class Crowd:
    """Producers that take turns by chance: each pushes bursts, one job after another."""

    def __init__(self, ground: Ground, server: Server, producers: int, jobs: int) -> None:
        self.acked: dict[str, float] = {}
        self.push_ms: list[float] = []
        self._jobs = jobs
        self._threads = [
            threading.Thread(
                target=self._produce, args=(ground.client(server.url), 0.2 * ground.dice.random()), daemon=True
            )
            for _ in range(producers)
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
    """Reads totals, pages and latency again and again."""

    def __init__(self, server: Server) -> None:
        self._config = Config()
        self._config.redis.url = server.url
        self._raw = server.raw
        self._ended = threading.Event()
        self._seen: list[tuple[str, float, float]] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self, crowd: Crowd) -> list[float]:
        """End it; answers by which part each latency was wrong."""
        self._ended.set()
        self._thread.join()
        self._config.shared_redis().close()
        truths = [(crowd.acked[jid], at, told) for jid, at, told in self._seen if jid in crowd.acked]
        return [abs(told - (at - pushed)) / max(at - pushed, 1.0) for pushed, at, told in truths]

    def _look(self) -> None:
        queue, retries = Queue("default", self._config), RetrySet(self._config)
        while not self._ended.wait(1 / LOOKS_PER_SECOND):
            Stats.read(self._config)
            _ = [*islice(queue, 25)], [*islice(retries, 25)]
            before = self._raw.lindex("queue:default", -1)
            told, at = queue.latency_seconds, time.time()
            if before and before == self._raw.lindex("queue:default", -1):
                self._seen.append((json.loads(before)["jid"], at, told))


def effects_per_second(ground: Ground, seconds: float) -> float:
    """How many jobs have their effect in a second, over so many seconds."""
    begun = ground.ledger.size()
    until(lambda: ground.ledger.size() > begun)
    first, started = ground.ledger.size(), time.monotonic()
    time.sleep(seconds)
    return max(1.0, (ground.ledger.size() - first) / (time.monotonic() - started))
