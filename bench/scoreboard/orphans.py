"""Jobs whose owners died with their machines, and many processes that reclaim them."""

from __future__ import annotations

import time

from bench.scoreboard.ground import Fleet, Ground, until
from bench.scoreboard.holdings import entries
from bench.scoreboard.processes import kill_host
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server

SWEEPERS = 8


@row(
    "R29",
    "the machines of 1,000 running jobs fail; 8 processes sweep at once. Then the same, and 4 of the 8 are killed "
    "while they reclaim the jobs",
    bar="lost 0; every job is requeued once; with kills: lost 0, duplicates <= kills x threads",
    heavy=True,
)
def orphan_race(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=150, full=1_000)
    server = ground.server()
    fleet = ground.workers(server.url)
    acked = make_orphans(ground, fleet, server, jobs)
    sweepers = [fleet.start("-c", "2", wait=False) for _ in range(SWEEPERS)]
    started = time.monotonic()
    ground.ledger.until(jobs, quiet_seconds=30)
    report.figure("seconds until all ran", time.monotonic() - started)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    again = ground.ledger.size("again")
    report.count(f"requeued twice 0, got {again}", again == 0)

    for worker in sweepers:
        worker.kill()
    ground.ledger.clear()
    acked = make_orphans(ground, fleet, server, jobs)
    sweepers = [fleet.start("-c", "2", wait=False) for _ in range(SWEEPERS)]
    until(lambda: ground.ledger.size() > 0, 60)
    for worker in sweepers[:4]:
        worker.kill()
    ground.ledger.until(jobs, quiet_seconds=30)
    ground.settled(server)
    tally = ground.tally(acked, server)
    report.count(f"with kills: lost 0, got {tally.acked - tally.ran}", tally.acked == tally.ran)
    report.count(f"with kills: duplicates <= 8, got {tally.duplicated}", tally.duplicated <= 8)
    report.figure("duplicated with kills", tally.duplicated)


def make_orphans(ground: Ground, fleet: Fleet, server: Server, jobs: int) -> list[str]:
    """Start jobs in processes, kill these with all their children, and return the jids."""
    acked = ground.push(ground.client(server.url), jobs, name="scoreboard.Hold")
    hosts = [fleet.start("-c", str(jobs // 2), wait=False) for _ in range(2)]
    until(lambda: len(entries(server.raw)) == jobs and ground.ledger.size("held") >= jobs * 0.9, 60)
    kill_host(*hosts)
    return acked
