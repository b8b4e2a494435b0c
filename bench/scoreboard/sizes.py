"""Large amounts: stored jobs that are read, jobs that one worker runs, and more pushes than workers can run."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

from bench.compare.machine import memory_mb
from bench.scoreboard.environment import Environment, config_of
from bench.scoreboard.http_clients import HttpClient
from bench.scoreboard.row import Report, Tally, row
from bench.scoreboard.web_pages import first_job, jobs_of
from bench.servers import Server
from offsider.config.installation import Installation
from offsider.core.payload import new_jid
from offsider.inspector import Queue, RetrySet, Stats

PAGE = 25
PART_MS = 150
THREADS = 10
JOB_MS = 200
LOOKS_PER_SECOND = 10
TURNS = 5


@row(
    "R22",
    "1,000,000 queued jobs and 1,000,000 retries are read in Python and on pages: totals, a page of each, a filter, "
    "deleting one",
    bar="totals and dashboard < 100 ms, a page and each part of a filter < 150 ms, deleting one < 100 ms; totals and "
    "pages are right, a filter shows its progress and finds the job",
    heavy=True,
)
def many_stored(env: Environment, report: Report) -> None:
    jobs = env.pick(smoke=50_000, full=1_000_000)
    server = env.server(persist=False)
    store_many(server.raw, jobs)
    config = config_of(server.url)
    queue, retries = Queue("default", config), RetrySet(config)

    def timed(name: str, limit_ms: float, look: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = look()
        ms = (time.perf_counter() - started) * 1000
        report.within(name, ms, limit_ms, "ms")
        return found

    Stats.read(config)  # connects
    stats = timed("totals", 100, lambda: Stats.read(config))
    report.count(
        f"totals are right: {stats.enqueued}, {stats.retries}", (stats.enqueued, stats.retries) == (jobs, jobs)
    )
    waiting = timed("page of the queue", 150, lambda: [*islice(queue, PAGE)])
    failed = timed("page of the retries", 150, lambda: [*islice(retries, PAGE)])
    report.count("pages are full", len(waiting) == len(failed) == PAGE)
    timed("latency", 100, lambda: queue.latency_seconds)
    deleted = timed("deleting a queued one", 100, lambda: queue.delete(waiting[3]))
    deleted = timed("deleting a retry", 100, failed[3].delete) and deleted
    report.count("each deletion removes one job", deleted and (len(queue), len(retries)) == (jobs - 1, jobs - 1))
    timed("finding one by jid in the middle", math.inf, lambda: retries.find_job(f"{jobs // 2:024x}"))
    report.tally = Tally(pushed=jobs * 2, acked=jobs * 2, left=jobs * 2 - 2)
    Installation.of(config).redis.close()
    Looks(env.pages(server), report).over(jobs)


class Looks:
    """A user of the pages.

    Args:
        pages: the pages of the server.
        report: receives the duration of each request.
    """

    def __init__(self, pages: HttpClient, report: Report) -> None:
        self._pages = pages
        self._report = report

    def over(self, jobs: int) -> None:
        """Request every page that could be slow with much data, and use a button."""
        self._pages.get("/")  # the first request loads the templates
        self._timed("dashboard", 100, "/")
        for name, target in (
            ("fleet", "/fleet"),
            ("first page", "/jobs?where=queue:default"),
            ("page in the middle", f"/jobs?where=queue:default&page={jobs // 50}"),
            ("last page", f"/jobs?where=queue:default&page={jobs // 25}"),
            ("first retries", "/jobs?where=retry"),
            ("retries in the middle", f"/jobs?where=retry&page={jobs // 50}"),
            ("a retry", first_job(self._pages.data("/jobs?where=retry"))[1]),
        ):
            self._timed(name, 150, target)
        self._filtered("retries", f"/jobs?where=retry&text={jobs // 2 + 7:024x}")
        self._filtered("search", f"/jobs?text={jobs // 3 + 7:024x}")
        for where in ("queue:default", "retry"):
            place = f"/jobs?where={where}"
            first = self._pages.data(place)
            reply = self._pages.post("/jobs/selected/delete", key=first_job(first)[0])
            ms = reply.seconds * 1000
            self._report.timed(f"deleting one of {place} by its page < 100 ms: {ms:.1f}", ms < 100)
            left = self._pages.data(place)["pager"]["total"]
            self._report.count(f"its page deletes one of {place}: {reply.status}", left == first["pager"]["total"] - 1)

    def _timed(self, name: str, limit_ms: float, target: str) -> None:
        replies = [self._pages.get(target) for _ in range(5)]
        ms = sorted(reply.seconds * 1000 for reply in replies)[2]
        self._report.count(f"{name} is shown: {replies[0].status}", replies[0].status == 200)
        self._report.timed(f"{name} < {limit_ms:g} ms: {ms:.1f}", ms < limit_ms)
        self._report.figure(name, f"{ms:.0f} ms")

    def _filtered(self, name: str, target: str) -> None:
        parts, slowest, found, scanned = 0, 0.0, 0, list[int]()
        while target:
            part, ms = self._part(target)
            if ms > PART_MS:  # repeat: other load rarely delays it twice
                ms = min(ms, self._part(target)[1])
            slowest = max(slowest, ms)
            told = part.get("search", part)
            found += len(jobs_of(part)["rows"])
            scanned.append(told["scanned"])
            parts, target = parts + 1, told["more"]
        self._report.count(
            f"the filter of {name} finds the job, and shows its progress: {found}", found and any(scanned)
        )
        self._report.timed(f"a part of the filter of {name} < {PART_MS} ms: {slowest:.1f}", slowest < PART_MS)
        self._report.figure(f"filter of {name}", f"{parts} parts, slowest {slowest:.0f} ms")

    def _part(self, target: str) -> tuple[dict[str, Any], float]:
        started = time.perf_counter()
        part = self._pages.data(target)
        return part, (time.perf_counter() - started) * 1000


def store_many(raw: Any, jobs: int) -> None:
    """Fill queue and retry set, 1,000 at a time."""
    raw.sadd("queues", "default")
    now_ms = int(time.time() * 1000)
    job: dict[str, Any] = {"class": "scoreboard.Work", "args": [], "queue": "default", "enqueued_at": now_ms}
    failed = job | {"error_class": "RuntimeError", "error_message": "it fails", "failed_at": now_ms, "retry_count": 3}
    for start in range(0, jobs, 1000):
        numbers = range(start, min(jobs, start + 1000))
        with raw.pipeline(transaction=False) as pipeline:
            pipeline.lpush("queue:default", *(json.dumps(job | {"jid": new_jid()}) for _ in numbers))
            pipeline.zadd("retry", {json.dumps(failed | {"jid": f"{number:024x}"}): 4e9 + number for number in numbers})
            pipeline.execute()


@row(
    "R23",
    "1,000,000 jobs through one worker of 10 threads, and as many coroutines through another",
    bar="after the first 100,000 RSS grows by < 1 MB per 100,000; lost 0; duplicates 0",
    heavy=True,
)
def memory_over_time(env: Environment, report: Report) -> None:
    slices, size = env.pick(smoke=(4, 3_000), full=(10, 100_000))
    # With few jobs, caches and heap still grow at first: then check the total growth instead of the slope.
    most_mb = env.pick(smoke=6.0, full=1.0 * (slices - 1))
    for name, what in (("scoreboard.Work", "threads"), ("scoreboard.AsyncWork", "coroutines")):
        server = env.server(persist=False)
        worker = env.workers(server.url).start("-c", str(THREADS))
        env.ledger.clear()
        resident, acked = list[float](), list[str]()
        for number in range(slices):
            acked += env.push_args(env.client(server.url), [[number] for number in range(size)], name)
            env.ledger.until(size * (number + 1), quiet_seconds=30)
            resident.append(memory_mb(worker.pid)[0])
        env.settled(server)
        tally = env.tally(acked, server)
        growth = resident[-1] - resident[0]
        report.count(f"{what}: RSS grows by < {most_mb:g} MB: {growth:.1f}", growth < most_mb)
        report.count(f"{what}: lost 0, duplicates 0", tally.ran == tally.acked and not tally.duplicated)
        report.figure(f"RSS of {what}", " ".join(f"{mb:.1f}" for mb in resident) + " MB")
        report.tally += tally
        worker.stopped()


@row(
    "R24",
    "100 producers push bursts of jobs of 200 ms to 10 threads; for half of the time ten pages a second are requested",
    bar="the queue's latency is right within 5 %; a push takes < 10 ms (p99); page requests slow the drain by <= 5 %; "
    "lost 0",
)
def slow_consumer(env: Environment, report: Report) -> None:
    producers, half_seconds = env.pick(smoke=(20, 3.0), full=(100, 30.0))
    server = env.server()
    fleet = env.workers(server.url)
    fleet.start("-c", str(THREADS))
    # The producers share one interpreter: simultaneous bursts would measure how long they wait for each other.
    longest_wait_seconds = env.pick(smoke=0.3, full=3.0)
    waits_seconds = [env.dice.uniform(0, longest_wait_seconds) for _ in range(producers)]
    # The workers run jobs while the slowest producer still pushes: 30 s in the full tier.
    enough_seconds = 2 * half_seconds + env.pick(smoke=5, full=45)
    crowd = Crowd(env, server, waits_seconds, round(enough_seconds * THREADS * 1000 / JOB_MS / producers))
    crowd.push()
    onlooker = Onlooker(server, env.pages(server))
    quiet = watched = 0
    for _ in range(TURNS):  # in turns, so that a slow phase of the machine affects both
        quiet += effects_within(env, half_seconds / TURNS)
        onlooker.is_looking.set()
        watched += effects_within(env, half_seconds / TURNS)
        onlooker.is_looking.clear()
    left = int(server.raw.llen("queue:default"))
    errors = onlooker.stop(crowd)
    env.finish(report, [*crowd.acked], server)
    report.timed(f"jobs waited until the last comparison: {left}", left > 0)
    report.nothing("duplicates", report.tally.duplicated)
    p99 = sorted(crowd.push_ms)[int(len(crowd.push_ms) * 0.99)]
    report.within("push p99", p99, 10, "ms")
    worst = f"{max(errors):.1%}" if errors else "not compared"
    report.timed(f"latency right within 5 %: {worst}", errors and max(errors) <= 0.05)
    slower = 1 - watched / max(quiet, 1)
    report.timed(f"the pages slow the drain by <= 5 %: {slower:.1%}", slower <= 0.05)
    report.figure("latency wrong by at most", worst)
    report.figure("slower while pages are read", f"{slower:.1%}")
    looks = sorted(onlooker.look_ms)
    report.figure("looks", f"{len(looks):,}, median {looks[len(looks) // 2]:.0f} ms, slowest {looks[-1]:.0f} ms")
    wanted = half_seconds * LOOKS_PER_SECOND / 4  # a busy machine sends fewer requests
    report.count(f"pages were requested all the time: {len(looks)}", len(looks) > wanted)
    report.nothing("requests that returned no page", onlooker.odd)


class Crowd:
    """Producers that push in bursts of five jobs.

    Args:
        waits_seconds: pauses of each producer, before each of its bursts.
        jobs: number of jobs of each producer.
    """

    def __init__(self, env: Environment, server: Server, waits_seconds: Sequence[float], jobs: int) -> None:
        self.acked: dict[str, float] = {}
        self.push_ms: list[float] = []
        self._env, self._server, self._jobs = env, server, jobs
        self._waits_seconds = waits_seconds

    def push(self) -> None:
        with ThreadPoolExecutor(len(self._waits_seconds)) as producers:
            list(producers.map(self._produce, self._waits_seconds))

    def _produce(self, wait_seconds: float) -> None:
        client = self._env.client(self._server.url)
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

    def __init__(self, server: Server, pages: HttpClient) -> None:
        self._pages = pages
        self._raw = server.raw
        #: duration of each request in ms
        self.look_ms: list[float] = []
        #: requests that did not return a page
        self.odd: list[str] = []
        self._ended = threading.Event()
        #: set while it sends requests
        self.is_looking = threading.Event()
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
        targets = cycle(("/", "/fleet", "/jobs?where=queue:default", "/jobs?where=retry", "/class"))
        while not self._ended.wait(1 / LOOKS_PER_SECOND):
            if not self.is_looking.is_set():
                continue
            target = next(targets)
            reply = self._pages.get(target)
            self.look_ms.append(reply.seconds * 1000)
            self.odd += [f"{target}: {reply.status}"] if reply.status != 200 else []
            if target == "/fleet":
                self._compare()

    def _compare(self) -> None:
        """Record the wait on the page of the fleet, if the oldest job did not change during the request."""
        before = self._raw.lindex("queue:default", -1)
        started = time.time()
        cells = next(row for row in self._pages.data("/fleet")["blocks"][0]["rows"] if row[0]["text"] == "default")
        at = (started + time.time()) / 2
        if before and before == self._raw.lindex("queue:default", -1):
            self._seen.append((json.loads(before)["jid"], at, cells[2]["seconds"]))


def effects_within(env: Environment, seconds: float) -> int:
    """Return the number of jobs that have their effect within this time."""
    begun = env.ledger.size()
    time.sleep(seconds)
    return env.ledger.size() - begun
