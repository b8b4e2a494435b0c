"""Large amounts of data: the cost of reading it, and the memory of workers over many jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from bench.scoreboard.ground import Ground, until
from bench.scoreboard.processes import resident_mb
from bench.scoreboard.row import Report, row
from bench.scoreboard.visits import HttpVisits
from offsider import Config
from offsider.config.installation import Installation
from offsider.core.payload import new_jid
from offsider.inspector import Queue, RetrySet, Stats
from offsider.web.segments import segment
from tests.process.workers import Worker

PAGE = 25
PART_MS = 150
THREADS = 10


@row(
    "R22",
    "1,000,000 queued jobs and 1,000,000 retries are read in Python and on pages: totals, a page of each, a filter, "
    "deleting one",
    bar="totals and dashboard < 100 ms, a page and each part of a filter < 150 ms, deleting one < 100 ms; totals and "
    "pages are right, a filter shows its progress and finds the job",
    heavy=True,
)
def many_stored(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=50_000, full=1_000_000)
    server = ground.server(persist=False)
    store_many(server.raw, jobs)
    config = Config()
    config.redis.url = server.url
    queue, retries = Queue("default", config), RetrySet(config)

    def timed(name: str, limit_ms: float, look: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = look()
        ms = (time.perf_counter() - started) * 1000
        if limit_ms:
            report.timed(f"{name} < {limit_ms:g} ms: {ms:.1f}", ms < limit_ms)
        report.figure(name, f"{ms:.1f} ms")
        return found

    timed("connecting", 0, lambda: Stats.read(config))
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
    timed("finding one by jid in the middle of the retries", 0, lambda: retries.find_job(f"{jobs // 2:024x}"))
    report.tally.pushed = report.tally.acked = jobs * 2
    report.tally.left = jobs * 2 - 2
    Installation.of(config).redis.close()
    Looks(ground.pages(server), report).over(jobs)


class Looks:
    """A user of the pages.

    Args:
        pages: the pages of the server.
        report: receives the duration of each request.
    """

    def __init__(self, pages: HttpVisits, report: Report) -> None:
        self._pages = pages
        self._report = report

    def over(self, jobs: int) -> None:
        """Request every page that could be slow with much data, and use a button."""
        self._pages.get("/")  # the first request loads the templates
        self._timed("dashboard", 100, "/")
        for name, target in (
            ("queues", "/queues"),
            ("first page", "/queues/default"),
            ("page in the middle", f"/queues/default?page={jobs // 50}"),
            ("last page", f"/queues/default?page={jobs // 25}"),
            ("first retries", "/retries"),
            ("retries in the middle", f"/retries?page={jobs // 50}"),
            ("callers", "/callers/default"),
            ("a retry", f"/job/retry/{segment(self._pages.data('/retries')['jobs'][0]['key'])}"),
            ("preview of deleting some", "/retries/all?verb=delete&text=nothing-has-this"),
        ):
            self._timed(name, 150, target)
        self._filtered("retries", f"/retries?text={jobs // 2 + 7:024x}")
        self._filtered("search", f"/search?q={jobs // 3 + 7:024x}")
        for place in ("/queues/default", "/retries"):
            first = self._pages.data(place)
            reply = self._pages.post(f"{place}/selected/delete", key=first["jobs"][2]["key"])
            ms = reply.seconds * 1000
            self._report.timed(f"deleting one of {place} by its page < 100 ms: {ms:.1f}", ms < 100)
            left = self._pages.data(place)["size"]
            self._report.count(f"its page deletes one of {place}: {reply.status}", left == first["size"] - 1)

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
            found += len(part["jobs"])
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
def memory_over_time(ground: Ground, report: Report) -> None:
    slices, size = ground.pick(smoke=(4, 3_000), full=(10, 100_000))
    # With few jobs, caches and heap still grow at first: then check the total growth instead of the slope.
    most_mb = ground.pick(smoke=6.0, full=1.0 * (slices - 1))
    for name, what in (("scoreboard.Work", "threads"), ("scoreboard.AsyncWork", "coroutines")):
        server = ground.server(persist=False)
        worker = ground.workers(server.url).start("-c", str(THREADS))
        ground.ledger.clear()
        resident, acked = list[float](), list[str]()
        for number in range(slices):
            acked += push_lazily(ground, server.url, size, name, worker)
            ground.ledger.until(size * (number + 1), quiet_seconds=30)
            resident.append(resident_mb(worker.pid))
        ground.settled(server)
        tally = ground.tally(acked, server)
        growth = resident[-1] - resident[0]
        report.count(f"{what}: RSS grows by < {most_mb:g} MB: {growth:.1f}", growth < most_mb)
        report.count(f"{what}: lost 0, duplicates 0", tally.ran == tally.acked and not tally.duplicated)
        report.figure(f"RSS of {what}", " ".join(f"{mb:.1f}" for mb in resident) + " MB")
        report.tally.pushed += tally.pushed
        report.tally.acked += tally.acked
        report.tally.ran += tally.ran
        report.tally.duplicated += tally.duplicated
        report.tally.lost += tally.lost
        worker.stopped()


def push_lazily(ground: Ground, url: str, jobs: int, name: str, worker: Worker) -> list[str]:
    until(lambda: worker.runs)
    pushed = ground.client(url).push_bulk({"class": name, "args": [[number] for number in range(jobs)]})
    return [jid for jid in pushed if jid]
