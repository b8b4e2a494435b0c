"""The server dies and restarts, with or without its data."""

from __future__ import annotations

import time

from bench.scoreboard.ground import Fleet, Ground, fences, until, until_more
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from bench.scoreboard.ticking import Ticking, every_other_second

THREADS = 4
PROCESSES = 2


@row(
    "R3",
    "the server (AOF, `everysec`) is killed and restarted every 2 s while 2 processes of 4 threads drain a queue",
    bar="lost 0; duplicates <= kills x threads; resumes < 3 s; dead threads 0",
    heavy=True,
)
def server_killed(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=3_000, full=60_000)
    server = ground.server()
    acked = ground.push(ground.client(server.url), jobs, ms=2)
    fleet = start_fleet(ground, server)
    kills, slowest = 0, 0.0
    slice_, pause = ground.pick(smoke=jobs // 5, full=jobs), ground.pick(smoke=20.0, full=2.0)
    while until_more(ground, slice_, of=jobs * 0.9, seconds=pause):
        server.kill()
        server.start_again()
        kills += 1
        slowest = max(slowest, seconds_to_resume(ground, jobs))
    ground.ledger.until(jobs, quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    most = kills * THREADS * PROCESSES
    report.count(f"duplicates <= kills x threads: {report.tally.duplicated} <= {most}", report.tally.duplicated <= most)
    report.timed(f"resumes < 3 s: {slowest:.1f} s", slowest < 3)
    all_alive(ground, report, fleet, server)
    report.figure("kills", kills)
    report.figure("slowest resume", f"{slowest:.1f} s")


@row(
    "R4",
    "the server without persistence is killed twice, and restarts empty",
    bar="no worker exits; processes register again < 10 s; new jobs run; dead threads 0; the number of jobs that the "
    "server forgot is reported; periodic jobs continue, each tick once",
)
def server_forgets(ground: Ground, report: Report) -> None:
    server = ground.server(persist=False)
    client = ground.client(server.url)
    ticking = Ticking(ground.folder / "ticking", every_other_second)
    fleet = start_fleet(ground, server, ticking)
    forgotten = 0
    for _ in range(2):
        doomed = ground.push(client, 200, ms=20)
        until(lambda: ground.ledger.size() >= 20)
        server.kill()
        server.start_again()
        started = time.monotonic()
        until(lambda: registered(server) == PROCESSES, 40, "every process registers again")
        report.timed("processes register again < 10 s", time.monotonic() - started < 10)
        forgotten += len(set(doomed) - ground.ledger.counts().keys())
        ground.ledger.clear()
    back_at = time.time()
    acked = ground.push(client, ground.pick(smoke=200, full=2_000), ms=1)
    ground.ledger.until(len(acked), quiet_seconds=20)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count("duplicates 0", report.tally.duplicated == 0)
    ticking.judge(
        ground.ledger, report, "ticks after the restart", back_at, time.time() + ground.pick(smoke=8, full=30)
    )
    all_alive(ground, report, fleet, server)
    report.figure("jobs that the server lost", forgotten)


def start_fleet(ground: Ground, server: Server, ticking: Ticking | None = None) -> Fleet:
    environ = {} if ticking is None else ticking.environ
    fleet = ground.workers(server.url)
    for worker in [fleet.start("-c", str(THREADS), wait=False, **environ) for _ in range(PROCESSES)]:
        worker.until_running()
    return fleet


def all_alive(ground: Ground, report: Report, fleet: Fleet, server: Server) -> None:
    """Check that no process has ended, no thread has died, and no worker was declared dead."""
    report.count("no worker has ended", len(fleet.running) == len(fleet.all))
    missing = fleet.missing_threads(ground.client(server.url), THREADS * PROCESSES)
    report.count(f"dead threads 0, got {missing}", missing == 0)
    report.count("no worker was declared dead", fences(server) == 0)


def registered(server: Server) -> int:
    """Count the processes that are in Sidekiq's registry with their hash, and registered as owners."""
    names = server.raw.smembers("processes")
    return sum(1 for name in names if server.raw.exists(name) and server.raw.hexists("offsider:owners", name))


def seconds_to_resume(ground: Ground, jobs: int) -> float:
    started, before = time.monotonic(), ground.ledger.size()
    until(lambda: ground.ledger.size() > before or before >= jobs, 60, "the drain resumes")
    return time.monotonic() - started
