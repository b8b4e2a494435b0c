"""The network drops all data, or resets connections."""

from __future__ import annotations

import time

from bench.scoreboard.ground import Ground, until
from bench.scoreboard.processes import resident_mb
from bench.scoreboard.restarts import THREADS, all_alive, seconds_to_resume
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from tests.faults import FaultProxy

PROCESSES = 2
GROWTH_MB = 20


@row(
    "R7",
    "for 30 s a black hole between workers and server drops all data in both directions; later the server is frozen "
    "for 30 s",
    bar="lost 0; no worker declared dead; dead threads 0; RSS flat; the drain resumes < 5 s afterwards",
)
def black_hole(ground: Ground, report: Report) -> None:
    silence_seconds = ground.pick(smoke=3.0, full=30.0)
    jobs = ground.pick(smoke=1_500, full=20_000)
    server = ground.server()
    proxy = ground.proxy(server)
    acked = ground.push(ground.client(server.url), jobs, ms=5)
    fleet = ground.workers(proxy.url)
    pair = [fleet.start("-c", str(THREADS), wait=False) for _ in range(PROCESSES)]
    for worker in pair:
        worker.until_running()
    until(lambda: ground.ledger.size() > jobs * 0.1)
    before = sum(resident_mb(worker.pid) for worker in pair)

    proxy.black_hole()
    time.sleep(silence_seconds)
    proxy.release()
    resumed = [seconds_to_resume(ground, jobs)]
    until(lambda: ground.ledger.size() > jobs * 0.4, 120)
    server.freeze()
    time.sleep(silence_seconds)
    server.thaw()
    resumed.append(seconds_to_resume(ground, jobs))

    ground.ledger.until(jobs, quiet_seconds=40)
    ground.settled(server)
    growth = sum(resident_mb(worker.pid) for worker in pair) - before
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"RSS grows by < {GROWTH_MB} MB: {growth:.1f}", growth < GROWTH_MB)
    for what, seconds in zip(("black hole", "frozen server"), resumed, strict=True):
        report.timed(f"after the {what} it resumes < 5 s: {seconds:.1f} s", seconds < 5)
        report.figure(f"resumed after {what}", f"{seconds:.1f} s")
    all_alive(ground, report, fleet, server)


@row(
    "R8",
    "every connection between workers and server is reset every 1 to 3 s, for 60 s",
    bar="lost 0; duplicates counted; dead threads 0; no worker declared dead",
)
def resets(ground: Ground, report: Report) -> None:
    seconds = ground.pick(smoke=6.0, full=60.0)
    server = ground.server()
    proxy = ground.proxy(server)
    client = ground.client(server.url)
    fleet = ground.workers(proxy.url)
    for worker in [fleet.start("-c", str(THREADS), wait=False) for _ in range(PROCESSES)]:
        worker.until_running()
    acked, count = reset_while_feeding(ground, server, proxy, seconds)
    ground.ledger.until(len(acked), quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    all_alive(ground, report, fleet, server)
    report.figure("resets", count)
    client.close()


def reset_while_feeding(ground: Ground, server: Server, proxy: FaultProxy, seconds: float) -> tuple[list[str], int]:
    """Reset every connection repeatedly while jobs are queued; return the jids and the number of resets."""
    client = ground.client(server.url)
    acked: list[str] = []
    slow, fast = ground.pick(smoke=(0.3, 0.9), full=(1.0, 3.0))
    count, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        pause_until = time.monotonic() + ground.dice.uniform(slow, fast)
        while time.monotonic() < pause_until:
            if server.raw.llen("queue:default") < 200:
                acked += ground.push(client, 200, ms=3)
            time.sleep(0.05)
        proxy.reset()
        count += 1
    return acked, count
