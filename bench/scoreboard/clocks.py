"""Machines whose clocks are wrong or jump."""

from __future__ import annotations

import time
from pathlib import Path

from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from bench.scoreboard.shifted_clock import VARIABLE as CLOCK
from bench.scoreboard.ticking import Ticking, changed_clocks
from offsider import Client
from offsider.core.payload import new_jid

LIBRARY_FOLDER = Path("/usr/lib")
LIBRARIES = ("libfaketimeMT.so.1", "libfaketime.so.1")


@row(
    "R13",
    "two workers whose clocks differ by 5 min, one of which jumps by +1 h and -1 h, run scheduled jobs, and periodic "
    "jobs in time zones that change their clocks in both directions during the run",
    bar="no job > 1 s early; lost 0; duplicates 0; each tick once",
)
def wrong_clocks(ground: Ground, report: Report) -> None:
    server = ground.server()
    library = faketime() if ground.tier == "full" else None
    if library is not None:
        acked = run_by_jumping_clocks(ground, report, server, library)
        report.figure("clocks by", Path(library).name)
    else:
        acked = run_by_wrong_clocks(ground, report, server)
        if ground.tier == "full":
            report.partial.append("only offsider's clock is shifted: Debian's libfaketime is not installed")
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    early = ground.ledger.size("early")
    report.count(f"early by > 1 s: 0, got {early}", early == 0)


def run_by_wrong_clocks(ground: Ground, report: Report, server: Server) -> list[str]:
    """Run pairs of workers whose offsider clock is wrong; return the jids."""
    client, fleet = ground.client(server.url), ground.workers(server.url)
    acked: list[str] = []
    for offset in (3600, -3600):
        first, seconds = int(time.time()) + 8, ground.pick(smoke=4, full=60)
        ticking = Ticking(ground.folder / f"ticking{offset}", changed_clocks(first, seconds))
        ticking.begin(server, first - 1)
        pair = [
            fleet.start("-c", "2", wait=False, **ticking.environ, **{CLOCK: str(wrong)})
            for wrong in (offset, offset - 300)
        ]
        for worker in pair:
            worker.until_running()
        acked += push_scheduled(ground, client)
        ground.ledger.until(len(acked), quiet_seconds=20)
        ticking.judge(ground.ledger, report, f"ticks by clocks wrong by {offset} s", first - 1, first + seconds - 1)
        for worker in pair:
            worker.stopped()
    return acked


def run_by_jumping_clocks(ground: Ground, report: Report, server: Server, library: str) -> list[str]:
    """Run two workers with a fake clock in the C library: one is 5 min late, the other one jumps."""
    client, fleet = ground.client(server.url), ground.workers(server.url)
    jumping = ground.folder / "jumping"
    jumping.write_text("+0")
    fake = {"LD_PRELOAD": library, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
    late, jumps = {"FAKETIME": "-300"}, {"FAKETIME_TIMESTAMP_FILE": str(jumping)}
    first, seconds = int(time.time()) + 8, 60
    ticking = Ticking(ground.folder / "ticking", changed_clocks(first, seconds))
    ticking.begin(server, first - 1)
    fake |= ticking.environ
    for worker in [fleet.start("-c", "2", wait=False, **fake, **given) for given in (late, jumps)]:
        worker.until_running()
    acked: list[str] = []
    for jump in ("+3600", "-3600", "+0"):
        acked += push_scheduled(ground, client)
        time.sleep(1)  # the first jobs are due now
        jumping.write_text(jump)
        ground.ledger.until(len(acked), quiet_seconds=20)
    ticking.judge(ground.ledger, report, "ticks by jumping clocks", first - 1, first + seconds - 1)
    return acked


def push_scheduled(ground: Ground, client: Client) -> list[str]:
    """Push jobs that are due in 1 to 3 s."""
    acked: list[str] = []
    for _ in range(ground.pick(smoke=60, full=1_000)):
        at, jid = time.time() + ground.dice.uniform(1.0, 3.0), new_jid()
        client.push({"class": "scoreboard.Due", "args": [at], "jid": jid, "at": at})
        acked.append(jid)
    return acked


def faketime() -> str | None:
    """Return the path of libfaketime if Debian's package ``libfaketime`` is installed."""
    found = [path for name in LIBRARIES for path in LIBRARY_FOLDER.glob(f"*/faketime/{name}")]
    return str(found[0]) if found else None
