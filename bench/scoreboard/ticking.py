"""Periodic jobs of a row: registers them in its workers, and computes the expected ticks.

ticking = Ticking(ground.folder / "ticking", changed_clocks(first, seconds=4))
worker = fleet.start("-c", "2", **ticking.environ)
ticking.judge(ground.ledger, report, "ticks", after, last)
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bench.scoreboard.effects import Effects, Ledger
from bench.scoreboard.ground import until
from bench.scoreboard.row import Report
from bench.scoreboard.servers import Server
from offsider import Config, JobContext, current_job
from offsider.ext.periodic import Periodic
from tests.zones import DAY, Expected, Zones, changes, ticks_by_minutes

VARIABLE = "SCOREBOARD_PERIODIC"
TABLE = "ticks"
JOB = "scoreboard.Tick"
#: Longer than any row, so that workers push ticks that were due before they started.
GRACE_SECONDS = 3600
STEP_SECONDS = 2


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
        return {VARIABLE: str(self._file), "PYTHONTZPATH": self._zones.path}

    def begin(self, server: Server, moment: int) -> None:
        """Store the state of workers that ran until then."""
        server.raw.hset("offsider:periodic:ticks", mapping={job.name: moment for job in self._jobs})

    def wanted(self, after: float, last: float) -> Counter[str]:
        """Return the expected ticks, found by looking at the clock in each minute."""
        return Counter(
            f"{job.name}:{tick}"
            for job in self._jobs
            for tick in ticks_by_minutes(job.cron, self._zones.zone(job.tz), after, last)
        )

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
        ran = jobs_of if by_jid else runs_of
        wanted = self.wanted(after, last)
        time.sleep(max(0.0, last + 1 - time.time()))
        with suppress(AssertionError):  # missing ticks are counted
            until(lambda: not wanted - ran(ledger, after, last), 20)
        found = ran(ledger, after, last)
        missing, odd = (wanted - found).total(), (found - wanted).total()
        report.count(f"{what}: {wanted.total()} ticks, missing {missing}, twice or wrong {odd}", found == wanted)
        report.figure(what, wanted.total())


def jobs_of(ledger: Ledger, after: float, last: float) -> Counter[str]:
    """Return each tick with the number of its jobs that have run."""
    ticks = (noted.partition("|")[0] for noted in ledger.counts(TABLE))
    return Counter(tick for tick in ticks if after < float(tick.rpartition(":")[2]) <= last)


def runs_of(ledger: Ledger, after: float, last: float) -> Counter[str]:
    """Return each tick with the number of runs of its jobs."""
    counts = ledger.counts(TABLE)
    return Counter({tick: times for tick, times in counts.items() if after < float(tick.rpartition(":")[2]) <= last})


def changed_clocks(first: int, seconds: int) -> Callable[[Zones], Sequence[Expected]]:
    """Define time zones that change their clocks, forward and back, at each of these seconds."""
    return lambda zones: changes(zones, first, seconds)


def every_other_second(zones: Zones) -> Sequence[Expected]:
    """Define time zones whose minutes begin at every other second of the real minute."""
    far = (int(time.time()) // DAY + 30) * DAY
    phases = range(0, 60, STEP_SECONDS)
    named = {second: zones.write(f"phase{second}", change_at=far, local=second, shift=0) for second in phases}
    return [Expected(f"every{second}", "* * * * *", tz) for second, tz in named.items()]


def install(config: Config) -> None:
    """Register the periodic jobs that the worker's environment defines."""
    if file := os.environ.get(VARIABLE):
        periodic = Periodic(grace_seconds=GRACE_SECONDS)
        for name, cron, tz in json.loads(Path(file).read_text()):
            periodic.register(cron, JOB, name=name, tz=tz)
        config.use(periodic)


def note(effects: Effects) -> None:
    """Count the tick of the running job."""
    effects.count(TABLE, tick_of(current_job()))


def note_job(effects: Effects) -> None:
    """Count the tick of the running job together with its jid, because it may run again."""
    context = current_job()
    effects.count(TABLE, f"{tick_of(context)}|{context.jid}")


def tick_of(context: JobContext) -> str:
    tick = context.payload["periodic"]  # type: ignore[typeddict-item]
    return f"{tick['name']}:{tick['at']}"
