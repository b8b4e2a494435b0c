"""A worker is told to stop while its jobs do not end."""

from __future__ import annotations

import json
import time
from subprocess import TimeoutExpired

from bench.scoreboard.ground import Ground, until
from bench.scoreboard.row import Report, row
from bench.scoreboard.stuck import KINDS, REACHED

TIMEOUT_SECONDS = 1
GRACE_SECONDS = 4


@row(
    "R25",
    "11 processes are told to stop; each runs a job that hangs in a way of its own: Python code, sleep, a child, "
    "sockets, a queue, a lock, C code that keeps the GIL, a bare except, a finally, a coroutine",
    bar="each process ends before timeout + 4 s (C code: + its length); each job is interrupted where CPython can, is "
    "put back where it cannot, and runs again; lost 0",
)
def honest_interrupts(ground: Ground, report: Report) -> None:
    server = ground.server()
    client = ground.client(server.url)
    fleet = ground.workers(server.url)
    workers = {kind: fleet.start("-c", "1", "-q", kind, "-t", str(TIMEOUT_SECONDS), wait=False) for kind in KINDS}
    acked = [client.push({"class": "scoreboard.Stuck", "args": [kind], "queue": kind}) for kind in KINDS]
    async_jid = client.push({"class": "scoreboard.StuckAsync", "args": [], "queue": "asyncio"})
    workers["asyncio"] = fleet.start("-c", "1", "-q", "asyncio", "-t", str(TIMEOUT_SECONDS), wait=False)
    until(lambda: ground.ledger.size("stuck") == len(workers), 60, "every job hangs")
    started = time.monotonic()
    for worker in workers.values():
        worker.send("TERM")
    late = ""
    for kind, worker in workers.items():
        allowed = started + TIMEOUT_SECONDS + GRACE_SECONDS + (12 if kind == "c_code" else 0) + slack(ground)
        try:
            worker.process.wait(max(0.01, allowed - time.monotonic()))
        except TimeoutExpired:
            late += f" {kind}"
    report.count(f"every process ends in time; late:{late or ' none'}", not late)
    landed = set(ground.ledger.counts("landed"))
    report.count(f"interrupted where it can be; not: {REACHED - landed}", landed >= REACHED)
    fleet.start("-c", "4", *(word for kind in (*KINDS, "asyncio") for word in ("-q", kind)))
    jids = [jid for jid in (*acked, async_jid) if jid]
    ground.ledger.until(len(jids), quiet_seconds=20)
    ground.settled(server)
    report.tally = ground.tally(jids, server)
    report.nothing_missing()
    report.figure("interrupted", " ".join(sorted(landed)))
    report.figure("given back while they hang", " ".join(sorted({*workers} - landed)))
    report.partial.append("limits of single jobs (`soft_timeout`, `hard_timeout`): the deadline of a stop is played")


def slack(ground: Ground) -> float:
    """In smoke other rows want the same cores."""
    return ground.pick(smoke=6.0, full=0.0)


@row(
    "R26",
    "as Kubernetes stops a pod: TERM while a job of 40 s runs, KILL after 30 s, default timeout of 25 s",
    bar="ends by itself < 26 s and before the KILL; the job is back in its queue, interrupted_count 1; lost 0",
)
def pod_is_stopped(ground: Ground, report: Report) -> None:
    timeout, kill_after = ground.pick(smoke=(2, 12.0), full=(25, 30.0))
    server = ground.server()
    client = ground.client(server.url)
    fleet = ground.workers(server.url)
    worker = fleet.start("-c", "2", "-t", str(timeout))
    jid = str(client.push({"class": "scoreboard.Stuck", "args": ["long"]}))
    until(lambda: ground.ledger.size("stuck") == 1)
    started = time.monotonic()
    worker.send("TERM")
    killed = False
    try:
        worker.process.wait(kill_after)
    except TimeoutExpired:
        killed = True
        worker.kill()
    seconds = time.monotonic() - started
    report.count("it ends before the KILL", not killed)
    report.count(f"exit code 0, got {worker.process.returncode}", worker.process.returncode == 0)
    report.timed(f"ends < {timeout + 1} s: {seconds:.1f} s", seconds < timeout + 1)
    waiting = [json.loads(raw) for raw in server.raw.lrange("queue:default", 0, -1)]
    back = [job.get("interrupted_count") for job in waiting if job["jid"] == jid]
    report.count(f"back in its queue with interrupted_count 1: {back}", back == [1])
    fleet.start("-c", "2")
    ground.ledger.until(1, quiet_seconds=20)
    ground.settled(server)
    report.tally = ground.tally([jid], server)
    report.nothing_missing()
    report.figure("ended after", f"{seconds:.1f} s")
