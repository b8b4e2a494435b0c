"""Unique and limited jobs whose workers are killed, on one server, and on three shards of two servers."""

from __future__ import annotations

import importlib
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from bench.scoreboard import batches
from bench.scoreboard.clocks import CLOCK, Ticking, changed_clocks
from bench.scoreboard.environment import QUIET_SECONDS, Environment, config_of, remaining
from bench.scoreboard.ledger import VARIABLE
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_jobs import StoredJobs
from bench.servers import Server
from bench.stall import Stall
from offsider import Client, Config
from offsider.config.installation import Installation
from offsider.ext.unique import Locks
from offsider.inspector import Controls
from offsider.jobs.function import JobFunction

APPLICATION = "bench.scoreboard.extended"
#: Variable with the shard of a worker, for its jobs; see `extended`.
SHARD = "SCOREBOARD_SHARD"
THREADS = 4
#: Maximum number of concurrent runs of each group of jobs.
LIMITS = {"limited": 3, "once": 1}
#: Lock duration of `extended.briefly`.
BRIEFLY_SECONDS = 10
LATE_SECONDS = 1.0
#: A queue without workers, which R28 deletes while its jobs are locked.
UNSERVED = "unserved"

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
MAX_AHEAD = 3_000


@row(
    "R28",
    "unique jobs, each pushed twice, jobs with a concurrency limit of three, and batches with callbacks and children, "
    "in 2 processes of 4 threads, one of which is killed (`kill -9`) each second; a queue with locked jobs is deleted",
    bar="of duplicate jobs one is stored; lost 0; duplicates <= kills x threads; no limit is exceeded inside the jobs; "
    "each lock is released within its time; no slot is left; each batch ends; each callback is pushed once, none early",
)
def locks_and_limits(env: Environment, report: Report) -> None:
    server = env.server()
    config, declared = config_of(server.url), declared_jobs(env)
    declared.configure(config)
    client = Client(config)
    orphans = declared.briefly.using(queue=UNSERVED).via(client).enqueue_many([(number,) for number in range(50)])
    orphaned_at = time.monotonic()
    server.raw.delete(f"queue:{UNSERVED}")
    report.count("jobs of the deleted queue were locked", all(orphans) and len(list(Locks(config))) == len(orphans))

    firsts: list[str] = []
    seconds: list[str] = []
    others: list[str] = []
    for start in range(0, env.pick(smoke=400, full=10_000), 20):  # each kind is present from the beginning to the end
        numbers = [(number,) for number in range(start, start + 20)]
        firsts += declared.once.via(client).enqueue_many(numbers)
        seconds += declared.once.via(client).enqueue_many(numbers)
        others += declared.briefly.via(client).enqueue_many([(1_000_000 + start,)])
        others += declared.limited.via(client).enqueue_many([(*number, 5) for number in numbers])
        for dies in (False, True):
            declared.push_batch(client, config, dies=dies)
    report.count("only the first of equal jobs is stored", all(firsts) and not any(seconds))
    acked = [jid for jid in (*firsts, *others) if jid]
    fleet = env.workers(server.url)
    pair = [fleet.start("-c", str(THREADS), wait=False, app=APPLICATION) for _ in range(2)]
    kills = env.repeat(
        lambda number: fleet.restart(pair, number, "-c", str(THREADS), app=APPLICATION),
        len(acked),
        slices=6,
        seconds=1.0,
    )
    env.finish(report, acked, server)
    ran_at = time.monotonic()
    judge_kills(env, report, acked, kills)
    least = env.pick(smoke=1, full=100)
    report.count(f"kills >= {least}: {kills}", kills >= least)
    judge_concurrency(env, report, LIMITS)

    def brief_locks() -> int:
        return sum(lock.job_name == "fleet.Briefly" for lock in Locks(config))

    late = remaining(brief_locks, max(0.0, orphaned_at + BRIEFLY_SECONDS + LATE_SECONDS - time.monotonic()))
    report.nothing(f"locks of {BRIEFLY_SECONDS} s that are there longer", late)
    judge_leftovers(report, [config])
    report.figure("seconds until the last lock was freed", time.monotonic() - ran_at)
    remaining(lambda: batches.unfinished(batches.statuses(config, server)))
    remaining(lambda: len(StoredJobs.of(server.raw).unfinished))
    noted, found = batches.Noted.of(env.ledger), batches.statuses(config, server)
    batches.judge(report, noted, found, most_repeated=kills * THREADS)


@row(
    "R31",
    "three shards on two servers, with processes whose clocks are 5 min apart and of which one is killed (`kill -9`) "
    "each second, run a mix of jobs: routed, scheduled, retried, unique, limited, and periodic jobs in time zones "
    "that change their clocks in both directions during the run",
    bar="every job runs on its shard; lost 0; duplicates <= kills x threads; of duplicate jobs one at a time is "
    "stored, no limit is exceeded inside the jobs; each tick is pushed once; no lock and no slot is left",
    heavy=True,
)
def fleet_of_shards(env: Environment, report: Report) -> None:
    main, bulk = env.server(), env.server()
    settings = SETTINGS.format(main=main.url, bulk=bulk.url, threads=THREADS)
    file = env.folder / "fleet.toml"
    file.write_text(settings)
    config, declared = Config.load(file, environ={}), declared_jobs(env)
    declared.configure(config)
    load = Load(env, Client(config), declared, env.pick(smoke=4_000, full=100_000))
    # Time zones that change their clocks at each of these seconds, and jobs in them.
    first, seconds = int(time.time()) + 8, env.pick(smoke=4, full=60)
    ticking = Ticking(env.folder / "ticking", changed_clocks(first, seconds))
    ticking.begin(main, first - 1)
    report.count(*load.same_jobs_before_the_start())
    shards = ShardWorkers(env, main, settings, ticking)
    kills = run_under_kills(env, load, shards)
    env.finish(report, load.acked, main, bulk, pushed=load.pushed)
    judge_kills(env, report, load.acked, kills)
    report.nothing("on a shard that is not theirs", env.ledger.size("strayed"))
    ticking.judge(env.ledger, report, "ticks", first - 1, first + seconds - 1, by_jid=True)
    judge_concurrency(env, report, LIMITS | {"limited crunch": 1})
    judge_leftovers(report, [Installation.of(config, name) for name in config.servers])
    report.figure("dropped as duplicates", load.dropped)
    report.figure("pushes of each kind", "; ".join(f"{name} {count:,}" for name, count in sorted(load.counts.items())))


def declared_jobs(env: Environment) -> ModuleType:
    """Import the jobs of the workers into this process, because rules need them."""
    os.environ[VARIABLE] = env.ledger.path
    return importlib.import_module(APPLICATION)


def judge_concurrency(env: Environment, report: Report, limits: Mapping[str, int]) -> None:
    """Check the maximum number of concurrent runs of each group, and that there were some."""
    for group, limit in limits.items():
        seen = env.ledger.max_concurrent(group)
        report.count(f"{group}: at most {limit} at one time, seen {seen}", 0 < seen <= limit)


def judge_kills(env: Environment, report: Report, acked: Sequence[str], kills: int) -> None:
    """Check the number of duplicates, and that no dropped job ran."""
    report.at_most("duplicates <= kills x threads", report.tally.duplicated, kills * THREADS)
    report.nothing("effects of jobs that were dropped", len(env.ledger.counts().keys() - set(acked)))
    report.figure("kills", kills)


def judge_leftovers(report: Report, configs: Sequence[Config | Installation]) -> None:
    """Check that no lock and no slot remains."""
    locks = remaining(lambda: sum(len(list(Locks(config))) for config in configs))
    report.nothing("locks left", locks)
    slots = remaining(
        lambda: sum(group.in_use + group.held for config in configs for group in Controls(config).groups())
    )
    report.nothing("slots in use and jobs held at the end", slots)


@dataclass
class Load:
    """The random load.

    Attributes:
        acked: jids of jobs whose push returned one.
        pushed: number of pushes.
        dropped: number of pushes that returned no jid, because the same job is stored already.
        counts: pushes of each kind.
    """

    env: Environment
    client: Client
    declared: ModuleType
    jobs: int
    acked: list[str] = field(default_factory=list[str])
    pushed: int = 0
    dropped: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])

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
        self.env.dice.shuffle(keys)
        answers = self.push("once", [(key,) for key in keys])
        firsts = {keys.index(key) for key in range(self.keys)}
        stored = {place for place, jid in enumerate(answers) if jid}
        return f"of {len(keys)} pushes of {self.keys} jobs {len(stored)} are stored: the first ones", stored == firsts

    def push_some(self) -> None:
        """Push a chunk of jobs of a random kind, after each kind was pushed once."""
        dice = self.env.dice
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
        self.counts[name] += len(args)
        return answers


class ShardWorkers:
    """The workers of all shards; the catch-all shard has one more than the others.

    Args:
        main: the server of two shards.
        settings: their configuration file.
    """

    def __init__(self, env: Environment, main: Server, settings: str, ticking: Ticking) -> None:
        self._env = env
        self._ticking = ticking
        self._fleet = env.workers(main.url)
        self._fleet.write(settings, "offsider.toml")
        self._wrong_clock = env.folder / "clock"
        self._wrong_clock.write_text(str(WRONG_SECONDS))
        processes = env.pick(smoke=1, full=2)
        self._shards = [*["urgent", "crunch"] * processes, *["ordinary"] * (processes + 1)]
        plans = map(self._plan, range(len(self._shards)))
        self._workers = [self._fleet.start(*words, wait=False, **environ) for words, environ in plans]
        for worker in self._workers:
            worker.until_running()

    def kill_one(self) -> None:
        """Kill a random worker, and start its successor."""
        place = self._env.dice.randrange(len(self._shards))
        words, environ = self._plan(place)
        self._fleet.restart(self._workers, place, *words, **environ)

    def _plan(self, place: int) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the options and the environment of the worker in this place."""
        shard = self._shards[place]
        wrong = {CLOCK: str(self._wrong_clock)} if place % 2 else {}
        return ("--shard", shard), {"app": APPLICATION, SHARD: shard, **self._ticking.environ, **wrong}


def run_under_kills(env: Environment, load: Load, shards: ShardWorkers) -> int:
    """Push as fast as the workers run, and kill one after a number of jobs or seconds; return the kills."""
    slice_, pause = env.pick(smoke=700, full=1_000_000), env.pick(smoke=20.0, full=1.0)
    kills, kill_at, kill_after = 0, slice_, time.monotonic() + pause
    stall = Stall(QUIET_SECONDS)  # missing jobs are counted
    while ((ran := env.ledger.size()) < len(load.acked) or not load.is_over) and not stall.lasts(ran):
        if ran >= kill_at or time.monotonic() >= kill_after:
            shards.kill_one()
            kills, kill_at, kill_after = kills + 1, ran + slice_, time.monotonic() + pause
        if not load.is_over and load.pushed - load.dropped - ran < MAX_AHEAD:
            load.push_some()
        else:
            time.sleep(0.01)
    return kills
