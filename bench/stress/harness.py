"""One run of `bench stress`: workers, their faults, and the final counts."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.scoreboard.environment import Environment, Fleet
from bench.scoreboard.row import Report
from bench.scoreboard.stored_jobs import StoredJobs, entries
from bench.stall import Stall
from bench.stress.jobs import ERRORS, LINES, SEED, THREADS
from offsider import Client, RedisUnavailable
from offsider.storage import working
from tests.process.workers import Worker

QUEUES = ("high", "default", "low")
SCRIPTS = (working.ACK_AND_CLAIM, working.SETTLE, working.REQUEUE)
CONCURRENCY = 4
FAR_MS = 5.0
#: Maximum number of waiting jobs: low, so that queues are often empty.
MAX_WAITING = 300
#: Duration of a job in ms, the end of its first attempt, and its share in percent.
MIX = ((0, "done", 60), (2, "done", 14), (20, "done", 10), (0, "fail", 6), (3, "fail", 3), (0, "again", 7))
#: A killed process repeats at most one job per thread, and the jobs that it finishes in 20 ms: of no-ops, up to this
#: number.
SHORT_MS, MAX_SHORT, MIN_LONG_MS = 1, 500, 2
STOP_SECONDS = 40.0
FAULTS = {
    "lost reply": 8,
    "lost request": 8,
    "killed pops": 4,
    "paused queue": 4,
    "reset": 3,
    "refused": 1,
    "black hole": 1,
    "killed process": 2,
    "killed machine": 1,
    "stopped": 2,
    "declared dead": 1,
    "suspended": 1,
}
#: After these, a process may have run jobs that run again elsewhere; after the last one, all processes.
REPEATING = ("killed process", "killed machine", "declared dead", "suspended")
KILLED_SERVER = "killed server"
ON_PROCESSES = (*REPEATING, "stopped")


@dataclass(frozen=True)
class Plan:
    """The parameters of a run.

    Attributes:
        seconds: duration of the faults; the start and the end of a run take about 15 s more.
        processes: number of concurrent worker processes.
        lines: a thread pauses at one of this number of lines of the engine, on average; 0: no pauses.
        quiet_seconds: after this time without progress, the run stops waiting for jobs that have not run.
        app: the module of the jobs.
        faults: the faults by name, with their weights.
        mix: the jobs, see `MIX`.
    """

    seed: int
    seconds: float = 60.0
    processes: int = 4
    lines: int = 300
    quiet_seconds: float = 40.0
    app: str = "bench.stress.jobs"
    faults: Mapping[str, int] = field(default_factory=lambda: FAULTS)
    mix: Sequence[tuple[int, str, int]] = MIX


class Stress:
    """A run; its environment ends everything that it starts."""

    def __init__(self, plan: Plan, env: Environment) -> None:
        self.plan = plan
        self.faults: Counter[str] = Counter()
        # The number of calls for load depends on the speed of the machine; the sequence of faults must not.
        self._dice, self._load_dice = random.Random(plan.seed), random.Random(plan.seed + 1)
        self._kinds: dict[str, int] = {}
        self._violations: list[str] = []
        self._workers: list[Worker] = []
        self._leaving: list[Worker] = []
        self._started = 0
        self._env = env
        self._server = env.server()
        self._raw: Any = self._server.raw
        for script in SCRIPTS:
            self._raw.script_load(script.text)
        self._client: Client = env.client(self._server.url)
        far_url = env.delayed_url(self._server.url, rtt_ms=FAR_MS)
        self._proxies = [env.proxy(url) for url in (self._server.url, far_url)]
        # Otherwise a job that is running at several kills would move to the dead set.
        self._environ = {"OFFSIDER_WORKER_MAX_STRIKES": "0", LINES: str(self.plan.lines)}
        self._fleets: list[Fleet] = [env.workers(proxy.url) for proxy in self._proxies]

    def run(self, report: Report, say: Callable[[str], None] = lambda _line: None) -> None:
        """Inject the faults, wait until all jobs have ended, and count."""
        self._workers = [self._start(place) for place in range(self.plan.processes)]
        for worker in self._workers:
            worker.until_running()
        began = spoke = time.monotonic()
        while (now := time.monotonic()) < began + self.plan.seconds:
            self._feed_for(self._dice.uniform(0.05, 0.4))
            self._replace_ended()
            self._play(self._dice.choices([*self.plan.faults], [*self.plan.faults.values()])[0])
            if now - spoke > 30:
                spoke = now
                say(f"{now - began:.0f} s: {len(self._kinds)} jobs pushed, {self.faults.total()} faults")
        self._end()
        self._judge(report)

    # --- the load ---------------------------------------------------------------------------------

    def _feed_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if sum(self._raw.llen(f"queue:{queue}") for queue in QUEUES) < MAX_WAITING:
                self._push(self._load_dice.randint(1, 40))
            self._make_due()
            time.sleep(self._load_dice.uniform(0.0, 0.05))

    def _push(self, count: int) -> None:
        dice = self._load_dice
        ((ms, ending, _),) = dice.choices(self.plan.mix, [weight for _, _, weight in self.plan.mix])
        item = {"class": "stress.Work", "args": [[ms, ending]] * count, "queue": dice.choice(QUEUES)}
        with suppress(RedisUnavailable):  # after a death of the server: unacknowledged pushes may be lost
            self._kinds |= {jid: ms for jid in self._client.push_bulk(item) if jid}

    def _make_due(self) -> None:
        """Make retries due at once; otherwise they would wait for seconds."""
        waiting = self._raw.zrange("retry", 0, -1)
        if waiting:
            self._raw.zadd("retry", dict.fromkeys(waiting, time.time()), xx=True)

    # --- faults -----------------------------------------------------------------------------------

    def _play(self, fault: str) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each fault
        dice, proxy, place = self._dice, self._dice.choice(self._proxies), self._dice.randrange(len(self._workers))
        worker, seconds = self._workers[place], self._dice.uniform(0.05, 0.8)
        if fault in ON_PROCESSES and not runs_jobs(worker):
            return  # otherwise, on a slow machine, workers would be killed before they run jobs
        self.faults[fault] += 1
        match fault:
            case "lost reply":
                proxy.lose_reply(dice.choice(SCRIPTS).sha.encode(), dice.randint(1, 3))
            case "lost request":
                proxy.lose_request(dice.choice(SCRIPTS).sha.encode(), dice.randint(1, 3))
            case "killed pops":
                for client in self._raw.client_list():
                    if "b" in client["flags"]:
                        self._raw.client_kill_filter(_id=client["id"])
            case "paused queue":
                queue = dice.choice(QUEUES)
                self._raw.sadd("paused", queue)
                self._feed_for(seconds)
                self._raw.srem("paused", queue)
            case "reset":
                proxy.reset()
            case "refused":
                proxy.refuse()
                self._feed_for(seconds)
                proxy.accept()
            case "black hole":
                proxy.black_hole()
                self._feed_for(seconds)
                proxy.release()
            case "killed process":
                worker.kill_alone()
                self._workers[place] = self._start(place)
            case "killed machine":
                worker.kill()
                self._workers[place] = self._start(place)
            case "stopped":
                worker.send("TERM")
                self._leaving.append(worker)
                self._workers[place] = self._start(place)
            case "frozen server":
                self._server.freeze()
                time.sleep(seconds)
                self._server.thaw()
            case "killed server":
                self._server.kill()
                self._server.start_again()
            case "declared dead":
                for identity in self._identities(worker):
                    self._raw.set(f"offsider:fenced:{identity}", "0 0")
            case _:
                with suppress(ProcessLookupError):
                    worker.send("STOP")
                    self._feed_for(seconds * 5)
                    worker.send("CONT")

    def _identities(self, worker: Worker) -> list[str]:
        """Return the current identity of a worker; empty while it starts."""
        owners = [owner.decode() for owner in self._raw.hkeys("offsider:owners")]
        return [owner for owner in owners if owner.split(":")[-2] == str(worker.pid)][-1:]

    def _start(self, place: int) -> Worker:
        self._started += 1
        queues = [word for queue in QUEUES for word in ("-q", queue)]
        environ = self._environ | {SEED: f"{self.plan.seed} {self._started}"}
        fleet = self._fleets[place % len(self._fleets)]
        return fleet.start("-c", str(CONCURRENCY), "-t", "10", *queues, app=self.plan.app, wait=False, **environ)

    def _replace_ended(self) -> None:
        """Replace ended workers. A worker may only end by itself if it was still starting during a fault."""
        for place, worker in enumerate(self._workers):
            if not worker.runs:
                if runs_jobs(worker):
                    self._violations.append(f"a worker ended by itself with code {worker.process.returncode}")
                self._workers[place] = self._start(place)

    # --- the end ----------------------------------------------------------------------------------

    def _end(self) -> None:
        for proxy in self._proxies:
            proxy.accept()
            proxy.release()
        self._come_to_rest()
        for worker in self._workers:
            worker.send("TERM")
        for worker in self._leaving + self._workers:
            try:
                code = worker.ended(STOP_SECONDS)
            except AssertionError:
                self._violations.append("a worker did not stop")
                continue
            if code and runs_jobs(worker):
                self._violations.append(f"a worker stopped with code {code}")

    def _come_to_rest(self) -> None:
        """Wait until every job has run and none is stored; give up after `quiet_seconds` without progress."""
        stall, now = Stall(self.plan.quiet_seconds), (-1, -1)
        while now != (len(self._kinds), 0) and not stall.lasts(now):
            time.sleep(0.05)
            self._replace_ended()
            self._make_due()
            now = self._env.ledger.size(), len(StoredJobs.of(self._raw).unfinished)

    def _judge(self, report: Report) -> None:
        ledger = self._env.ledger
        report.tally = self._env.tally([*self._kinds], self._server)
        report.nothing_missing()
        for kind, (count, most) in self._repeated().items():
            report.at_most(f"duplicates of {kind} jobs <= faults x threads that each affects", count, most)
        report.nothing("entries in private lists", len(entries(self._raw)))
        report.nothing("jobs that were not pushed", ledger.counts().keys() - self._kinds.keys())
        report.nothing("errors", ledger.counts(ERRORS))
        report.nothing("threads left", ledger.counts(THREADS))
        report.nothing("wrong ends of workers", self._violations)
        report.figure("faults", ", ".join(f"{name} {times}" for name, times in sorted(self.faults.items())))
        if report.missed:
            kept = Path(tempfile.mkdtemp(prefix="stress-"))
            for number, worker in enumerate(one for fleet in self._fleets for one in fleet.all):
                shutil.copy(worker.file, kept / f"worker-{number}-{worker.pid}.log")
            report.figure("logs of the workers", kept)

    def _repeated(self) -> dict[str, tuple[int, int]]:
        """Return for each kind of job the number of repeated runs and its upper bound."""
        runs = self._env.ledger.counts()
        hit = sum(self.faults[fault] for fault in REPEATING) + self.faults[KILLED_SERVER] * self.plan.processes
        repeats: Counter[bool] = Counter()
        for jid, ms in self._kinds.items():
            repeats[ms >= SHORT_MS] += max(0, runs[jid] - 1)
        return {
            "long": (repeats[True], hit * (CONCURRENCY + CONCURRENCY * 20 // MIN_LONG_MS)),
            "short": (repeats[False], hit * (CONCURRENCY + MAX_SHORT)),
        }


def runs_jobs(worker: Worker) -> bool:
    """Return whether the worker has started."""
    return "running <Capsule" in worker.output


def play(plan: Plan, say: Callable[[str], None] = lambda _line: None) -> Report:
    """Run a plan on its own servers."""
    report = Report("stress", "full", plan.seed)
    with Environment("full", plan.seed) as env:
        Stress(plan, env).run(report, say)
    return report
