"""The environment of a row: folder, servers, workers, clients, ledger and random generator; removed afterwards.

server = ground.server()
fleet = ground.workers(server.url)
worker = fleet.start("-c", "4")
jids = ground.push(ground.client(server.url), 1000, ms=2)
ground.ledger.until(1000, quiet_seconds=20)
report.tally = ground.tally(jids, server)
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from bench.scoreboard.effects import RAN, RECOVERED, VARIABLE, Effects, Ledger
from bench.scoreboard.holdings import Holdings, entries
from bench.scoreboard.row import Tally
from bench.scoreboard.servers import Server
from bench.scoreboard.visits import HttpVisits
from offsider import Client, Config
from tests.faults import FaultProxy
from tests.process.web_process import WebProcess
from tests.process.workers import MODULE, Worker, Workers
from tests.waiting import wait_for

T = TypeVar("T")

APPLICATION = "bench.scoreboard.application"
LIVENESS_SECONDS = 2.0


class Ground:
    """The resources of a row.

    Args:
        tier: ``"smoke"`` or ``"full"``.
        seed: of the random generator.
    """

    def __init__(self, tier: str, seed: int) -> None:
        self.tier = tier
        self.dice = random.Random(seed)
        self._stack = ExitStack()
        self._servers = 0

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

    # --- what is in it ------------------------------------------------------------------------------

    def server(self, *, persist: bool = True, binary: Path | None = None, **config: str) -> Server:
        """Start another server; keywords become lines of its configuration (`_` becomes `-`)."""
        self._servers += 1
        lines = {key.replace("_", "-"): value for key, value in config.items()}
        server = Server(self.folder / f"s{self._servers}", persist=persist, config=lines, binary=binary)
        self._stack.callback(server.close)
        return server

    def proxy(self, server: Server) -> FaultProxy:
        return self._stack.enter_context(FaultProxy(server.url))

    def client(self, url: str, **settings: Any) -> Client:
        """Return a client; keywords are settings of the section ``redis``."""
        config = Config()
        config.redis.url = url
        for name, value in settings.items():
            setattr(config.redis, name, value)
        client = Client(config)
        self._stack.callback(client.close)
        return client

    def workers(self, url: str, *, liveness_seconds: float = LIVENESS_SECONDS, **environ: str) -> Fleet:
        """Return a fleet of workers of one server; keywords are environment variables."""
        self._servers += 1
        folder = self.folder / f"w{self._servers}"
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

    def pages(self, server: Server) -> HttpVisits:
        """Serve the pages of a server with `offsider web` in its own process."""
        process = WebProcess(self.folder, server.url, OFFSIDER_ENV="production")
        self._stack.callback(process.close)
        visits = HttpVisits(process.port)
        self._stack.callback(visits.close)
        return visits

    # --- what is done in it -------------------------------------------------------------------------

    def effects(self) -> Effects:
        """Return the jobs' access to the ledger, for a row that runs jobs itself."""
        effects = Effects(self.ledger.path)
        self._stack.callback(effects.close)
        return effects

    def push(self, client: Client, jobs: int, *, ms: float = 0, name: str = "scoreboard.Work") -> list[str]:
        """Push this number of jobs and return their jids."""
        pushed = client.push_bulk({"class": name, "args": [[number, ms] for number in range(jobs)]})
        return [jid for jid in pushed if jid]

    def settled(self, server: Server, *, seconds: float = 10.0) -> bool:
        """Wait until the private lists are empty; False if they are not after ``seconds``."""
        until = time.monotonic() + seconds
        while entries(server.raw):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def tally(self, acked: Sequence[str], *servers: Server, pushed: int | None = None) -> Tally:
        """Count the jobs whose push returned by result, over all of these servers."""
        effects, mine = self.ledger.counts(RAN), set(acked)
        missing = mine - effects.keys()
        held = [Holdings.of(server.raw) for server in servers]
        dead = missing.intersection(jid for one in held for jid in one.dead)
        private = missing.intersection(jid for one in held for jid in one.private)
        waiting = missing.intersection(jid for one in held for jid in one.waiting)
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

    def write(self, text: str, name: str) -> None:
        """Write a file into the folder of the workers, for example their configuration."""
        self._workers.write(text, name)

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self.all if worker.runs]

    @property
    def output(self) -> str:
        return "".join(worker.output for worker in self.all)

    def missing_threads(self, client: Client, threads: int, *, seconds: float = 15.0) -> int:
        """Return the number of dead threads: each thread gets a job that blocks it until all threads have one."""
        self._rolls += 1
        roll = f"roll{self._rolls}"
        client.push_bulk({"class": "scoreboard.RollCall", "args": [[roll]] * threads})
        give_up = time.monotonic() + seconds
        while (present := self._ledger.get("present", roll)) < threads and time.monotonic() < give_up:
            time.sleep(0.05)
        self._ledger.set("dismissed", roll, 1)
        return threads - present

    def stop(self, *, seconds: float = 40.0) -> list[int]:
        """Send TERM to all workers and return their exit codes."""
        running = self.running
        for worker in running:
            worker.send("TERM")
        return [worker.ended(seconds) for worker in running]

    def close(self) -> None:
        self._workers.close()


def until(condition: Callable[[], T], seconds: float = 40.0, what: str = "") -> T:
    """Wait for the condition and return its first true result.

    Raises:
        AssertionError: it was not true in time.
    """
    return wait_for(condition, seconds, what)


def until_more(ground: Ground, jobs: int, *, of: float, seconds: float) -> bool:
    """Wait until this number of additional jobs has run, or the time is over; False once all ``of`` have run."""
    wanted, deadline = min(ground.ledger.size() + jobs, of), time.monotonic() + seconds
    while ground.ledger.size() < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    return ground.ledger.size() < of


def fences(server: Server) -> int:
    """Return the number of owners that were declared dead; fences expire after a day."""
    return sum(1 for _ in server.raw.scan_iter("offsider:fenced:*", count=1000))
