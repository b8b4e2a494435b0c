"""Workers are killed, and stopped, while they run jobs."""

from __future__ import annotations

import time

from bench.scoreboard.ground import Ground, until, until_more
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server

THREADS = 4


@row(
    "R1",
    "a drain by 2 processes of 4 threads, of which one is killed (`kill -9`) each second and started again; with jobs "
    "of 2 ms, then with jobs that do nothing",
    bar="lost 0; duplicates <= kills x threads; with jobs that do nothing: <= kills x 100, and > 3,000 jobs/s",
    heavy=True,
)
def killed_workers(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=2_500, full=100_000)
    server = ground.server()
    acked, kills, seconds = drain_under_kills(ground, server, jobs, ms=2)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    duplicated = report.tally.duplicated
    report.count(f"duplicates <= kills x threads: {duplicated} <= {kills * THREADS}", duplicated <= kills * THREADS)
    report.figure("kills", kills)
    report.figure("jobs/s", round(jobs / seconds))

    ground.ledger.clear()
    acked, kills, seconds = drain_under_kills(ground, server, ground.pick(smoke=12_000, full=100_000), ms=0)
    tally = ground.tally(acked, server)
    missing = tally.acked - tally.ran
    report.count(f"no-ops: lost 0, got {missing}", missing == 0)
    doubled = tally.duplicated
    report.count(f"no-ops: duplicates <= kills x 100: {doubled} <= {kills * 100}", doubled <= kills * 100)
    rate = len(acked) / seconds
    report.timed(f"no-ops: > 3,000 jobs/s: {rate:,.0f}", rate > 3_000)
    report.figure("no-ops", f"{len(acked):,}, kills {kills}, duplicated {doubled}, {rate:,.0f}/s")


def drain_under_kills(ground: Ground, server: Server, jobs: int, *, ms: float) -> tuple[list[str], int, float]:
    """Push and drain; answers the jids, the number of kills and the seconds of the drain."""
    fleet = ground.workers(server.url)
    pair = [fleet.start("-c", str(THREADS), wait=False) for _ in range(2)]
    for worker in pair:
        worker.until_running()
    started = time.monotonic()
    acked = ground.push(ground.client(server.url), jobs, ms=ms)
    kills = 0
    # In smoke by progress, so that there are as many kills on a slow machine as on a quick one.
    slice_, pause = ground.pick(smoke=jobs // 8, full=jobs), ground.pick(smoke=20.0, full=1.0)
    while until_more(ground, slice_, of=jobs * 0.98, seconds=pause):
        pair[kills % 2].kill()
        pair[kills % 2] = fleet.start("-c", str(THREADS), wait=False)
        kills += 1
    ground.ledger.until(jobs, quiet_seconds=30)
    seconds = time.monotonic() - started
    ground.settled(server)
    fleet.close()
    return acked, kills, seconds


@row(
    "R2",
    "2 processes of 4 threads, one of which gets TERM every 2 s and a successor, run jobs of 50 to 500 ms",
    bar="lost 0; duplicates 0, since every job fits the timeout",
)
def rolling_restart(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=120, full=900)
    server = ground.server()
    client = ground.client(server.url)
    times = [[number, ground.dice.randint(50, 500)] for number in range(jobs)]
    acked = [jid for jid in client.push_bulk({"class": "scoreboard.Work", "args": times}) if jid]
    fleet = ground.workers(server.url)
    pair = [fleet.start("-c", str(THREADS), "-t", "10", wait=False) for _ in range(2)]
    stops = 0
    slice_, pause = ground.pick(smoke=jobs // 7, full=jobs), ground.pick(smoke=20.0, full=2.0)
    while until_more(ground, slice_, of=jobs * 0.95, seconds=pause):
        pair[stops % 2].until_running()
        pair[stops % 2].send("TERM")
        pair[stops % 2] = fleet.start("-c", str(THREADS), "-t", "10", wait=False)
        stops += 1
    ground.ledger.until(jobs, quiet_seconds=20)
    until(lambda: len(fleet.running) == 2)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    codes = {worker.process.returncode for worker in fleet.all if not worker.runs}
    report.count(f"every stopped worker ends with code 0: {codes}", codes <= {0})
    report.figure("stops", stops)
