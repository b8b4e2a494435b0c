"""The server's memory is full, and it evicts nothing."""

from __future__ import annotations

import time

from bench.scoreboard.ground import LIVENESS_SECONDS, Ground, fences
from bench.scoreboard.holdings import Holdings
from bench.scoreboard.row import Report, row
from offsider import Client, QueueFull

THREADS = 4
PUSHES = 20


@row(
    "R11",
    "50,000 jobs are queued, one in 50 fails; then `maxmemory` is set below the used memory, under `noeviction`",
    bar="pushes raise QueueFull; the drain continues to 0; every failed job is kept for its retry; no worker declared "
    "dead",
    heavy=True,
)
def full_server(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=3_000, full=50_000)
    server = ground.server(persist=False, maxmemory_policy="noeviction")
    client = ground.client(server.url)
    failing = ground.push(client, jobs // 50, name="scoreboard.Failing")
    acked = ground.push(client, jobs)
    server.raw.config_set("maxmemory", "100kb")
    refused = sum(is_refused(client) for _ in range(PUSHES))
    report.count(f"QueueFull {PUSHES}, got {refused}", refused == PUSHES)

    started = time.monotonic()
    fleet = ground.workers(server.url)
    for worker in [fleet.start("-c", str(THREADS), wait=False) for _ in range(2)]:
        worker.until_running()
    ground.ledger.until(jobs, quiet_seconds=30)
    ground.ledger.until(len(failing), quiet_seconds=10, table="failed")
    seconds = time.monotonic() - started
    time.sleep(max(0.0, 4 * LIVENESS_SECONDS - seconds))  # long enough to be declared dead
    ground.settled(server)

    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    kept = set(failing) & {*Holdings.of(server.raw).waiting}
    report.count(f"retries kept {len(failing)}, got {len(kept)}", len(kept) == len(failing))
    report.count("no worker was declared dead", fences(server) == 0)
    report.count("no worker has ended", len(fleet.running) == 2)
    server.raw.config_set("maxmemory", "0")
    report.count("a push succeeds once memory is free again", not is_refused(client))
    report.figure("jobs/s on the full server", round(jobs / seconds))


def is_refused(client: Client) -> bool:
    """Return whether a push raises QueueFull; any other error fails the row."""
    try:
        client.push({"class": "scoreboard.Work", "args": []})
    except QueueFull:
        return True
    return False
