"""Three shards on two servers: rules, locks, limits and periodic jobs, with workers that are killed."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from bench.scoreboard.effects import RAN, VARIABLE
from bench.scoreboard.ground import Fleet, Ground, until
from bench.scoreboard.inside import Outside
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from bench.scoreboard.shifted_clock import VARIABLE as CLOCK
from bench.scoreboard.ticking import Ticking, changed_clocks
from offsider import Client, Config
from offsider.config.installation import Installation
from offsider.ext.unique import Locks
from offsider.inspector import Controls
from offsider.jobs.function import JobFunction
from tests.process.workers import Worker

APPLICATION = "bench.scoreboard.guarded"
#: Variable with the shard of a worker, for its jobs; see `guarded`.
SHARD = "SCOREBOARD_SHARD"
SETTINGS = """\
[redis]
url = "{main}"

[servers.bulk]
url = "{bulk}"

[routing]
rules = [
    ["urgency=high", "urgent"],
    ["resource_boundary=cpu", "crunch", "bulk"],
    ["*", "ordinary"],
]

[shards.urgent]
queues = ["urgent"]
concurrency = {threads}

[shards.crunch]
select = "resource_boundary=cpu"
server = "bulk"
concurrency = {threads}

[shards.ordinary]
queues = ["ordinary"]
concurrency = {threads}
"""
THREADS = 4
#: Error of every other process's clock in seconds.
WRONG_SECONDS = -300
#: Job, its duration in ms, and its share of a thousand jobs.
MIX = (
    ("ordinary", 1, 430),
    ("urgent", 1, 250),
    ("crunch", 2, 200),
    ("once", 1, 60),
    ("limited", 4, 30),
    ("flaky", 1, 20),
    ("limited_crunch", 2, 10),
)
#: Jobs of which some are scheduled.
SCHEDULED = ("ordinary", "crunch")
CHUNK = 50
#: Maximum number of pushed jobs that have not run yet.
AHEAD = 3_000


@row(
    "R31",
    "three shards on two servers, with processes whose clocks are 5 min apart and of which one is killed (`kill -9`) "
    "each second, run a mix of jobs: routed, scheduled, retried, unique, limited, and periodic jobs in time zones "
    "that change their clocks in both directions during the run",
    bar="every job runs on its shard; lost 0; duplicates <= kills x threads; of duplicate jobs one at a time is "
    "stored, no limit is exceeded inside the jobs; each tick is pushed once; no lock and no slot is left",
    heavy=True,
)
def fleet_of_shards(ground: Ground, report: Report) -> None:
    main, bulk = ground.server(), ground.server()
    played = Played(ground, main, bulk, processes=ground.pick(smoke=1, full=2))
    first, seconds = int(time.time()) + 8, ground.pick(smoke=4, full=60)
    played.prepare_ticks(first, seconds)
    report.count(*played.load.same_jobs_before_the_start())
    played.start()
    kills = played.work_off(slice_=ground.pick(smoke=700, full=1_000_000), pause=ground.pick(smoke=20.0, full=1.0))
    load = played.load
    ground.ledger.until(len(load.acked), quiet_seconds=40)
    settled = [ground.settled(server) for server in (main, bulk)]
    report.count("private lists are empty", all(settled))
    report.tally = ground.tally(load.acked, main, bulk, pushed=load.pushed)
    report.nothing_missing()
    duplicated = report.tally.duplicated
    report.count(f"duplicates <= kills x threads: {duplicated} <= {kills * THREADS}", duplicated <= kills * THREADS)
    unknown = len(ground.ledger.counts(RAN).keys() - set(load.acked))
    report.count(f"effects of jobs that were dropped 0, got {unknown}", unknown == 0)
    strayed = ground.ledger.size("strayed")
    report.count(f"on a shard that is not theirs 0, got {strayed}", strayed == 0)
    played.ticking.judge(ground.ledger, report, "ticks", first - 1, first + seconds - 1, by_jid=True)
    played.judge_guards(report)
    report.figure("kills", kills)
    report.figure("dropped as duplicates", load.dropped)
    report.figure("pushes of each kind", "; ".join(f"{name} {count:,}" for name, count in sorted(load.counts.items())))


@dataclass
class Load:
    """The random load.

    Attributes:
        acked: jids of jobs whose push returned one.
        pushed: number of pushes.
        dropped: number of pushes that returned no jid, because the same job is stored already.
        counts: pushes of each kind.
    """

    ground: Ground
    client: Client
    declared: ModuleType
    jobs: int
    acked: list[str] = field(default_factory=list[str])
    pushed: int = 0
    dropped: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def is_over(self) -> bool:
        return self.pushed >= self.jobs

    @property
    def keys(self) -> int:
        """Number of different unique jobs."""
        return self.jobs // 50

    def same_jobs_before_the_start(self) -> tuple[str, bool]:
        """Push every unique job three times while no worker runs, so that the expected result is exact."""
        keys = [*range(self.keys)] * 3
        self.ground.dice.shuffle(keys)
        answers = self.push("once", [(key,) for key in keys])
        firsts = {keys.index(key) for key in range(self.keys)}
        stored = {place for place, jid in enumerate(answers) if jid}
        return f"of {len(keys)} pushes of {self.keys} jobs {len(stored)} are stored: the first ones", stored == firsts

    def push_some(self) -> None:
        """Push a chunk of jobs of a random kind, after each kind was pushed once."""
        dice = self.ground.dice
        missing = [kind for kind in MIX if kind[0] not in self.counts]
        ((name, ms, _),) = missing[:1] or dice.choices(MIX, [weight for _, _, weight in MIX])
        if name == "once":
            self.push(name, [(dice.randrange(self.keys),) for _ in range(CHUNK)])
            return
        delay = dice.uniform(0.5, 3) if name in SCHEDULED and dice.random() < 0.1 else None
        self.push(name, [(self.pushed + number, ms) for number in range(CHUNK)], delay)

    def push(self, name: str, args: list[tuple[float, ...]], delay: float | None = None) -> Sequence[str]:
        declared: JobFunction[..., None] = getattr(self.declared, name)
        answers = declared.via(self.client).enqueue_many([*map(list, args)], at=delay)
        stored = [jid for jid in answers if jid]
        self.acked += stored
        self.pushed += len(args)
        self.dropped += len(args) - len(stored)
        self.counts[name] = self.counts.get(name, 0) + len(args)
        return answers


class Played:
    """The fleet of the row, and its killer.

    Args:
        ground: the row's ground.
        main: the server of two shards.
        bulk: the server of the third shard.
        processes: number of processes per shard; the catch-all shard has one more.
    """

    ticking: Ticking

    def __init__(self, ground: Ground, main: Server, bulk: Server, processes: int) -> None:
        self._ground = ground
        self._main = main
        self._fleet: Fleet = ground.workers(main.url)
        settings = SETTINGS.format(main=main.url, bulk=bulk.url, threads=THREADS)
        self._fleet.write(settings, "offsider.toml")
        file = ground.folder / "fleet.toml"
        file.write_text(settings)
        self.config = Config.load(file, environ={})
        declared = declared_jobs(ground)
        declared.configure(self.config)
        self.load = Load(ground, Client(self.config), declared, ground.pick(smoke=4_000, full=100_000))
        self._outside = Outside(ground.ledger.path)
        self._shards = [*["urgent", "crunch"] * processes, *["ordinary"] * (processes + 1)]
        self._workers: list[Worker] = []

    def prepare_ticks(self, first: int, seconds: int) -> None:
        """Define time zones that change their clocks at each of these seconds, and jobs in them."""
        self.ticking = Ticking(self._ground.folder / "ticking", changed_clocks(first, seconds))
        self.ticking.begin(self._main, first - 1)

    def start(self) -> None:
        self._workers = [self._start(place) for place in range(len(self._shards))]
        for worker in self._workers:
            worker.until_running()

    def _start(self, place: int) -> Worker:
        shard = self._shards[place]
        wrong = {CLOCK: str(WRONG_SECONDS)} if place % 2 else {}
        environ = {SHARD: shard, **self.ticking.environ, **wrong}
        return self._fleet.start("--shard", shard, wait=False, app=APPLICATION, **environ)

    def work_off(self, *, slice_: int, pause: float) -> int:
        """Push as fast as the workers run, and kill one after a number of jobs or seconds; return the kills."""
        load, ledger = self.load, self._ground.ledger
        kills, kill_at, kill_after = 0, slice_, time.monotonic() + pause
        heard, heard_at = -1, time.monotonic()
        while (ran := ledger.size()) < len(load.acked) or not load.is_over:
            now = time.monotonic()
            if ran > heard:
                heard, heard_at = ran, now
            elif now - heard_at > 40:
                break  # missing jobs are counted
            if ran >= kill_at or now >= kill_after:
                self._kill(self._ground.dice.randrange(len(self._shards)))
                kills, kill_at, kill_after = kills + 1, ran + slice_, time.monotonic() + pause
            if not load.is_over and load.pushed - load.dropped - ran < AHEAD:
                load.push_some()
            else:
                time.sleep(0.01)
        return kills

    def _kill(self, place: int) -> None:
        pid = self._workers[place].pid
        self._workers[place].kill()
        self._outside.killed(pid)
        self._workers[place] = self._start(place)

    def judge_guards(self, report: Report) -> None:
        """Check locks and limits as counted inside the jobs, and that none remains."""
        limits = {"limited": 3, "limited crunch": 1, "once": 1}
        for group, limit in limits.items():
            most = self._outside.most(group)
            report.count(f"{group}: at most {limit} at one time, seen {most}", 0 < most <= limit)
        servers = [Installation.of(self.config, name) for name in self.config.servers]
        locks = remaining(lambda: sum(len(list(Locks(config))) for config in servers))
        report.count(f"locks left 0, got {locks}", locks == 0)
        slots = remaining(
            lambda: sum(group.in_use + group.held for config in servers for group in Controls(config).groups())
        )
        report.count(f"slots in use and jobs held at the end 0, got {slots}", slots == 0)
        self._outside.close()


def declared_jobs(ground: Ground, application: str = APPLICATION) -> ModuleType:
    """Import the jobs of the workers into this process, because rules need them."""
    os.environ[VARIABLE] = ground.ledger.path
    return importlib.import_module(application)


def remaining(count: Callable[[], int], seconds: float = 40.0) -> int:
    """Return what remains after a while; returns at once if nothing remains."""
    try:
        until(lambda: count() == 0, seconds)
    except AssertionError:
        return count()
    return 0
