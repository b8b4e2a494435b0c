"""Machines whose clocks are wrong or jump, and periodic jobs in time zones that change their clocks.

ticking = Ticking(env.folder / "ticking", changed_clocks(first, seconds=4))
worker = fleet.start("-c", "2", **ticking.environ, **{CLOCK: str(file)})
ticking.judge(env.ledger, report, "ticks", after, last)
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bench.scoreboard.environment import Environment
from bench.scoreboard.ledger import Ledger
from bench.scoreboard.row import Report, row
from bench.servers import Server
from offsider import Client, Config, current_job
from offsider.core.clock import Clock
from offsider.core.payload import new_jid
from offsider.ext.periodic import Periodic
from tests.time_zones import DAY, Expected, Zones, changes, ticks_by_minutes
from tests.waiting import wait_for

#: Variable of a worker with the path of a file, which has the error of its clock in seconds.
CLOCK = "SCOREBOARD_CLOCK"
#: Variable of a worker with the path of a file, which has its periodic jobs.
PERIODIC = "SCOREBOARD_PERIODIC"
TABLE = "ticks"
JOB = "scoreboard.Tick"
#: Longer than any row, so that workers push ticks that were due before they started.
GRACE_SECONDS = 3600
STEP_SECONDS = 2


@row(
    "R13",
    "two workers whose clocks differ by 5 min, one of which jumps by +1 h and -1 h, run scheduled jobs, and periodic "
    "jobs in time zones that change their clocks in both directions during the run",
    bar="no job > 1 s early; lost 0; duplicates 0; each tick once",
)
def wrong_clocks(env: Environment, report: Report) -> None:
    server = env.server()
    client, fleet = env.client(server.url), env.workers(server.url)
    late, jumping = env.folder / "late", env.folder / "jumping"
    late.write_text("-300")
    jumping.write_text("0")
    first, seconds = int(time.time()) + 8, env.pick(smoke=4, full=60)
    ticking = Ticking(env.folder / "ticking", changed_clocks(first, seconds))
    ticking.begin(server, first - 1)
    pair = [fleet.start("-c", "2", wait=False, **ticking.environ, **{CLOCK: str(clock)}) for clock in (late, jumping)]
    for worker in pair:
        worker.until_running()
    acked: list[str] = []
    for jump in ("3600", "-3600", "0"):
        acked += push_scheduled(env, client)
        time.sleep(1)  # the first jobs are due now
        jumping.write_text(jump)
        env.ledger.until(len(acked), quiet_seconds=20)
    ticking.judge(env.ledger, report, "ticks", first - 1, first + seconds - 1)
    env.finish(report, acked, server)
    report.nothing("duplicates", report.tally.duplicated)
    report.nothing("early by > 1 s", env.ledger.size("early"))


def push_scheduled(env: Environment, client: Client) -> list[str]:
    """Push jobs that are due in 1 to 3 s."""
    acked: list[str] = []
    for _ in range(env.pick(smoke=60, full=1_000)):
        at, jid = time.time() + env.dice.uniform(1.0, 3.0), new_jid()
        client.push({"class": "scoreboard.Due", "args": [at], "jid": jid, "at": at})
        acked.append(jid)
    return acked


class Ticking:
    """Periodic jobs with artificial time zones.

    Args:
        folder: for the time zones.
        make: creates the jobs.
    """

    def __init__(self, folder: Path, make: Callable[[Zones], Sequence[Expected]]) -> None:
        folder.mkdir()
        self._zones = Zones(folder / "zones")
        self._jobs = make(self._zones)
        self._file = folder / "jobs.json"
        self._file.write_text(json.dumps([[job.name, job.cron, job.tz] for job in self._jobs]))

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables for the workers that push and run them."""
        return {PERIODIC: str(self._file), "PYTHONTZPATH": self._zones.path}

    def begin(self, server: Server, moment: int) -> None:
        """Store the state of workers that ran until then."""
        server.raw.hset("offsider:periodic:ticks", mapping={job.name: moment for job in self._jobs})

    def judge(
        self, ledger: Ledger, report: Report, what: str, after: float, last: float, *, by_jid: bool = False
    ) -> None:
        """Wait until the last tick has run, and count which ran once, twice, or never.

        Args:
            ledger: counts the runs.
            report: receives the check.
            what: name of the check.
            after: check ticks after this time.
            last: last tick to check.
            by_jid: count repeated runs of a job once, because workers were killed.
        """
        wanted = Counter(  # found by looking at the clock in each minute
            f"{job.name}:{tick}"
            for job in self._jobs
            for tick in ticks_by_minutes(job.cron, self._zones.zone(job.tz), after, last)
        )

        def ran() -> Counter[str]:
            found: Counter[str] = Counter()
            for noted, times in ledger.counts(TABLE).items():
                tick = noted.partition("|")[0]
                if after < float(tick.rpartition(":")[2]) <= last:
                    found[tick] += 1 if by_jid else times
            return found

        time.sleep(max(0.0, last + 1 - time.time()))
        with suppress(AssertionError):  # missing ticks are counted
            wait_for(lambda: not wanted - ran(), 20)
        found = ran()
        missing, odd = (wanted - found).total(), (found - wanted).total()
        report.count(f"{what}: {wanted.total()} ticks, missing {missing}, twice or wrong {odd}", found == wanted)
        report.figure(what, wanted.total())


def changed_clocks(first: int, seconds: int) -> Callable[[Zones], Sequence[Expected]]:
    """Define time zones that change their clocks, forward and back, at each of these seconds."""
    return lambda zones: changes(zones, first, seconds)


def every_other_second(zones: Zones) -> Sequence[Expected]:
    """Define time zones whose minutes begin at every other second of the real minute."""
    far = (int(time.time()) // DAY + 30) * DAY
    phases = range(0, 60, STEP_SECONDS)
    named = {second: zones.write(f"phase{second}", change_at=far, local=second, shift=0) for second in phases}
    return [Expected(f"every{second}", "* * * * *", tz) for second, tz in named.items()]


class ShiftedClock(Clock):
    """A wall clock whose error is in a file; the monotonic clock is right."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> float:
        return super().now() + float(self._file.read_text() or "0")


def install(config: Config) -> None:
    """Give a worker the wrong clock and the periodic jobs that its environment defines."""
    if file := os.environ.get(PERIODIC):
        periodic = Periodic(grace_seconds=GRACE_SECONDS)
        for name, cron, tz in json.loads(Path(file).read_text()):
            periodic.register(cron, JOB, name=name, tz=tz)
        config.use(periodic)
    if file := os.environ.get(CLOCK):
        config.clock = ShiftedClock(Path(file))


def note_tick(ledger: Ledger) -> None:
    """Count the tick of the running job together with its jid."""
    context = current_job()
    tick = context.payload["periodic"]  # type: ignore[typeddict-item]
    ledger.count(TABLE, f"{tick['name']}:{tick['at']}|{context.jid}")
