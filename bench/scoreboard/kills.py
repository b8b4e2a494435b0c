"""Workers are killed or stopped while they run jobs."""

from __future__ import annotations

import time

from bench.compare.delay import DelayProxy
from bench.scoreboard.ground import Ground, until, until_more
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server

THREADS = 4


@row(
    "R1",
    "2 processes of 4 threads drain a queue; one is killed (`kill -9`) and restarted: each second with jobs of 2 ms, "
    "after each eighth of no-op jobs, and of no-op jobs with a round trip of 1 ms to the server",
    bar="lost 0; duplicates <= kills x threads; with no-op jobs <= kills x 100, with the round trip <= kills x 500; "
    "no-op jobs > 3,000 jobs/s, also with the round trip (with jobs of 2 ms, the rate is reported: 8 threads reach "
    "4,000/s at most)",
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

    kill_amid_no_ops(ground, report, server, server.url, "no-ops", most_ahead=100)
    with DelayProxy(server.url, rtt_ms=1) as proxy:
        kill_amid_no_ops(ground, report, server, proxy.url, "no-ops, 1 ms away", most_ahead=500)


def kill_amid_no_ops(ground: Ground, report: Report, server: Server, url: str, what: str, *, most_ahead: int) -> None:
    """Run a backlog with workers that use ``url``; each kill may repeat the prefetched jobs."""
    ground.ledger.clear()
    jobs = ground.pick(smoke=12_000, full=100_000)
    acked, kills, seconds = drain_under_kills(ground, server, jobs, ms=0, url=url)
    tally = ground.tally(acked, server)
    missing = tally.acked - tally.ran
    report.count(f"{what}: lost 0, got {missing}", missing == 0)
    doubled, most = tally.duplicated, kills * most_ahead
    report.count(f"{what}: duplicates <= kills x {most_ahead}: {doubled} <= {most}", doubled <= most)
    rate = len(acked) / seconds
    report.timed(f"{what}: > 3,000 jobs/s: {rate:,.0f}", rate > 3_000)
    report.figure(what, f"{len(acked):,}, kills {kills}, duplicated {doubled}, {rate:,.0f}/s")


def drain_under_kills(
    ground: Ground, server: Server, jobs: int, *, ms: float, url: str = ""
) -> tuple[list[str], int, float]:
    """Push and run jobs with workers that use ``url``; return the jids, the number of kills and the seconds."""
    fleet = ground.workers(url or server.url)
    pair = [fleet.start("-c", str(THREADS), wait=False) for _ in range(2)]
    for worker in pair:
        worker.until_running()
    started = time.monotonic()
    acked = ground.push(ground.client(server.url), jobs, ms=ms)
    kills = 0
    # No-op jobs, and all in tier smoke, by progress: a fast machine would be done before the first second ends.
    by_time, by_progress = (jobs, 1.0), (jobs // 8, 20.0)
    slice_, pause = ground.pick(smoke=by_progress, full=by_time if ms else by_progress)
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
    "2 processes of 4 threads run jobs of 50 to 500 ms; one gets TERM every 2 s and is replaced",
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
