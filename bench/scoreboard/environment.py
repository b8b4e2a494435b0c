"""The environment of a row: folder, servers, workers, clients, ledger and random generator; removed afterwards.

server = env.server()
fleet = env.workers(server.url)
fleet.start_all(2, "-c", "4")
jids = env.push(env.client(server.url), 1000, ms=2)
env.finish(report, jids, server)
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self, TypeVar

from bench.compare.delay import DelayProxy
from bench.scoreboard.http_clients import HttpClient
from bench.scoreboard.ledger import RAN, RECOVERED, VARIABLE, Ledger
from bench.scoreboard.row import Report, Tally
from bench.scoreboard.stored_jobs import StoredJobs, entries
from bench.servers import Server
from offsider import Client, Config
from offsider.worker.fetch.state import MAX_ACK_SECONDS
from tests.faults import FaultProxy
from tests.process.web_process import WebProcess
from tests.process.workers import MODULE, Worker, Workers
from tests.waiting import wait_for

T = TypeVar("T")

APPLICATION = "bench.scoreboard.application"
LIVENESS_SECONDS = 2.0
#: After this time without progress, a row stops waiting for jobs; those that are missing are counted.
QUIET_SECONDS = 40.0


class Environment:
    """The resources of a row.

    Args:
        tier: ``"smoke"`` or ``"full"``.
        seed: of the random generator.
    """

    def __init__(self, tier: str, seed: int) -> None:
        self.tier = tier
        self.dice = random.Random(seed)
        self._stack = ExitStack()
        self._folders = 0

    def __enter__(self) -> Self:
        # Short, because socket paths have a maximum length.
        folder = tempfile.TemporaryDirectory(prefix="offsider-", ignore_cleanup_errors=True)
        self.folder = Path(self._stack.enter_context(folder))
        self.ledger = Ledger(self.server(persist=False).socket_path)
        self._stack.callback(self.ledger.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pick(self, *, smoke: T, full: T) -> T:
        """Return the value for this tier."""
        return full if self.tier == "full" else smoke

    # --- resources

    def server(self, *, persist: bool = True, binary: Path | None = None, **config: str) -> Server:
        """Start another server; keywords become lines of its configuration (`_` becomes `-`)."""
        self._folders += 1
        lines = {key.replace("_", "-"): value for key, value in config.items()}
        server = Server(self.folder / f"s{self._folders}", persist=persist, config=lines, binary=binary)
        self._stack.callback(server.close)
        return server

    def proxy(self, url: str) -> FaultProxy:
        return self._stack.enter_context(FaultProxy(url))

    def delayed_url(self, url: str, *, rtt_ms: float) -> str:
        """Return the address of a proxy that adds a round trip to this server."""
        return self._stack.enter_context(closing(DelayProxy(url, rtt_ms=rtt_ms))).url

    def client(self, url: str, **settings: Any) -> Client:
        """Return a client; keywords are settings of the section ``redis``."""
        config = config_of(url)
        for name, value in settings.items():
            setattr(config.redis, name, value)
        client = Client(config)
        self._stack.callback(client.close)
        return client

    def workers(self, url: str, *, liveness_seconds: float = LIVENESS_SECONDS, **environ: str) -> Fleet:
        """Return a fleet of workers of one server; keywords are environment variables."""
        self._folders += 1
        folder = self.folder / f"w{self._folders}"
        folder.mkdir()
        settings = {
            VARIABLE: self.ledger.path,
            "OFFSIDER_WORKER_LIVENESS_SECONDS": str(liveness_seconds),
            "OFFSIDER_LOG_JOB_LOG": "false",
            "OFFSIDER_ENV": "production",
            **environ,
        }
        fleet = Fleet(Workers(folder, url), settings, self.ledger)
        self._stack.callback(fleet.close)
        return fleet

    def pages(self, server: Server) -> HttpClient:
        """Serve the pages of a server with `offsider web` in its own process."""
        process = WebProcess(self.folder, server.url, OFFSIDER_ENV="production")
        self._stack.callback(process.close)
        pages = HttpClient(process.port)
        self._stack.callback(pages.close)
        return pages

    # --- actions

    def push(self, client: Client, jobs: int, *, ms: float = 0, name: str = "scoreboard.Work") -> list[str]:
        """Push this number of jobs and return their jids."""
        return self.push_args(client, [[number, ms] for number in range(jobs)], name)

    def push_args(self, client: Client, args: Sequence[Sequence[float]], name: str = "scoreboard.Work") -> list[str]:
        """Push a job for each list of arguments and return their jids."""
        return [jid for jid in client.push_bulk({"class": name, "args": [*map(list, args)]}) if jid]

    def feed(self, server: Server, client: Client, jobs: int, *, ms: float) -> list[str]:
        """Push this number of jobs unless as many are waiting; return their jids."""
        return self.push(client, jobs, ms=ms) if server.raw.llen("queue:default") < jobs else []

    def repeat(self, fault: Callable[[int], object], total: int, *, slices: int, seconds: float) -> int:
        """Inject a fault until nearly all jobs have run, and return how often.

        In tier smoke after each slice of the jobs, since a fast machine would be done before the first seconds end.

        Args:
            fault: gets the number of the fault, from 0.
            total: number of all jobs.
            slices: number of slices.
            seconds: pause between faults in tier full; 0 uses slices there, too.
        """
        slice_, pause = total // slices, 20.0
        if seconds and self.tier == "full":
            slice_, pause = total, seconds
        number = 0
        while self._wait_for_more(slice_, total * 0.95, pause):
            fault(number)
            number += 1
        return number

    def _wait_for_more(self, jobs: int, enough: float, seconds: float) -> bool:
        """Wait until this number of further jobs has run, or the time is over; False once ``enough`` have run."""
        wanted = min(self.ledger.size() + jobs, enough)
        remaining(lambda: self.ledger.size() < wanted, seconds)
        return self.ledger.size() < enough

    def max_repeated(self, threads: int) -> int:
        """Return how many finished jobs a fault may repeat now: those of 20 ms, and one per thread."""
        size, started = self.ledger.size(), time.monotonic()
        time.sleep(0.1)
        rate = (self.ledger.size() - size) / (time.monotonic() - started)
        return round(rate * MAX_ACK_SECONDS) + threads

    def seconds_to_resume(self, total: float = math.inf, *, jobs: int = 1) -> float:
        """Return the seconds until this number of further jobs has run, or all of a total."""
        started, wanted = time.monotonic(), min(self.ledger.size() + jobs, total)
        wait_for(lambda: self.ledger.size() >= wanted, 60, "the drain resumes")
        return time.monotonic() - started

    # --- judgement

    def finish(self, report: Report, acked: Sequence[str], *servers: Server, pushed: int | None = None) -> None:
        """Wait until all jobs have run, and check that none is missing."""
        self.ledger.until(len(acked), quiet_seconds=QUIET_SECONDS)
        for server in servers:
            self.settled(server)
        report.tally = self.tally(acked, *servers, pushed=pushed)
        report.nothing_missing()

    def settled(self, server: Server) -> None:
        """Wait up to ten seconds until the private lists are empty."""
        remaining(lambda: len(entries(server.raw)), 10)

    def tally(self, acked: Sequence[str], *servers: Server, pushed: int | None = None) -> Tally:
        """Count the jobs whose push returned by result, over all of these servers."""
        effects, mine = self.ledger.counts(RAN), set(acked)
        missing = mine - effects.keys()
        stored = [StoredJobs.of(server.raw) for server in servers]
        dead = missing.intersection(jid for one in stored for jid in one.dead)
        private = missing.intersection(jid for one in stored for jid in one.private)
        waiting = missing.intersection(jid for one in stored for jid in one.waiting)
        return Tally(
            pushed=len(acked) if pushed is None else pushed,
            acked=len(mine),
            ran=len(mine) - len(missing),
            lost=len(missing - dead - private - waiting),
            duplicated=sum(effects[jid] - 1 for jid in mine & effects.keys()),
            recovered=len(mine & self.ledger.counts(RECOVERED).keys()),
            buried=len(dead),
            stranded=len(private - waiting - dead),
            left=len(waiting - dead),
        )


class Fleet:
    """Worker processes that serve one server.

    Args:
        workers: starts them.
        settings: their environment.
        ledger: the ledger for their effects.
    """

    def __init__(self, workers: Workers, settings: dict[str, str], ledger: Ledger) -> None:
        self._workers = workers
        self._settings = settings
        self._ledger = ledger
        self._rolls = 0
        self.all: list[Worker] = []

    def start(
        self, *options: str, wait: bool = True, app: str = APPLICATION, command: Sequence[str] = MODULE, **environ: str
    ) -> Worker:
        """Start a worker; keywords are additional environment variables."""
        settings = self._settings | environ
        worker = self._workers.start(*options, app=app, environ=settings, command=command, measured=False, wait=False)
        self.all.append(worker)
        if wait:
            worker.until_running()
        return worker

    def start_all(self, count: int, *options: str, app: str = APPLICATION, **environ: str) -> list[Worker]:
        """Start this number of workers at once, and wait until they run."""
        workers = [self.start(*options, wait=False, app=app, **environ) for _ in range(count)]
        for worker in workers:
            worker.until_running()
        return workers

    def restart(
        self, workers: list[Worker], number: int, *options: str, app: str = APPLICATION, **environ: str
    ) -> None:
        """Kill one of these workers, and start its successor in the same place; ``number`` counts around the list."""
        place = number % len(workers)
        self._ledger.remove_killed(workers[place].pid)
        workers[place].kill()
        workers[place] = self.start(*options, wait=False, app=app, **environ)

    def write(self, text: str, name: str) -> None:
        """Write a file into the folder of the workers, for example their configuration."""
        self._workers.write(text, name)

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self.all if worker.runs]

    def missing_threads(self, client: Client, threads: int, *, seconds: float = 15.0) -> int:
        """Return the number of dead threads: each thread gets a job that blocks it until all threads have one."""
        self._rolls += 1
        roll = f"roll{self._rolls}"
        client.push_bulk({"class": "scoreboard.RollCall", "args": [[roll]] * threads})
        missing = remaining(lambda: threads - self._ledger.get("present", roll), seconds)
        self._ledger.count("dismissed", roll)
        return missing

    def judge_alive(self, report: Report, client: Client, server: Server, threads: int) -> None:
        """Check that no process has ended, no thread has died, and no worker was declared dead."""
        report.count("no worker has ended", len(self.running) == len(self.all))
        report.nothing("dead threads", self.missing_threads(client, threads))
        report.nothing("workers declared dead", fences(server))

    def stop(self, *, seconds: float = 40.0) -> list[int]:
        """Send TERM to all workers and return their exit codes."""
        running = self.running
        for worker in running:
            worker.send("TERM")
        return [worker.ended(seconds) for worker in running]

    def close(self) -> None:
        self._workers.close()


def config_of(url: str) -> Config:
    config = Config()
    config.redis.url = url
    return config


def remaining(count: Callable[[], int], seconds: float = 40.0) -> int:
    """Return what remains after this time; return at once if nothing remains."""
    deadline = time.monotonic() + seconds
    while (left := count()) > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def fences(server: Server) -> int:
    """Return the number of owners that were declared dead; fences expire after a day."""
    return sum(1 for _ in server.raw.scan_iter("offsider:fenced:*", count=1000))
