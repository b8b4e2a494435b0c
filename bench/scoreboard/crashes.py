"""Processes that die between two steps."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import suppress
from subprocess import TimeoutExpired

from bench.scoreboard.crash import VARIABLE, Point
from bench.scoreboard.ground import Fleet, Ground
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from offsider import Client
from offsider.core.payload import new_jid

#: A request that moves a due job: it contains a sorted set and a queue, and no private list.
MOVE = r"\A(?!.*offsider:working:).*\r\n(?:retry|schedule)\r\n.*queue:"
#: A request that reads or writes a job.
ANY_STEP = r"offsider:working:|queue:|\r\n(?:retry|schedule|dead)\r\n"
#: A request with the payload of a job: its outcome, or a move.
WITH_A_JOB = r"scoreboard\."
SCHEDULER_LEASE = "offsider:schedule"
DIES_WITHIN_SECONDS = 6.0
#: Disables poison pills: the row kills the processes, and jobs that run then must not move to the dead set.
NO_PILLS = "0"
KINDS = ("Work", "Flaky", "Rescheduling", "Discarding", "Dying")
DEADLY = ("DyingBefore", "DyingAfter")


@row(
    "R16",
    "a worker dies 1,000 times while it moves due jobs from the schedule and the retry set to their queue: before the"
    " request, and after the server has executed it",
    bar="lost 0; duplicates <= deaths",
)
def scheduler_dies(ground: Ground, report: Report) -> None:
    deaths = ground.pick(smoke=10, full=1_000)
    server = ground.server()
    client = ground.client(server.url)
    fleet = ground.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES=NO_PILLS)
    acked: list[str] = []
    for _ in range(deaths):
        acked += push_due_jobs(client, server)
        server.raw.delete(SCHEDULER_LEASE)  # of the process that died: waiting for its end would take most of the row
        die_at(fleet, Point(MOVE, 1, after=ground.dice.random() < 0.5))
    fleet.start("-c", "4")
    ground.ledger.until(len(acked), quiet_seconds=20)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    died = ground.ledger.counts("crashes").total()
    report.count(f"duplicates <= deaths: {report.tally.duplicated} <= {died}", report.tally.duplicated <= died)
    report.count(f"deaths in a move >= {deaths // 2}, got {died}", died >= deaths // 2)
    report.figure("deaths in a move", died)


@row(
    "R17",
    "a worker dies at each request that claims, retries, reschedules, discards, buries, acknowledges or moves a job, "
    "before it and after it, and before and after the effect of a job",
    bar="lost 0 at every point; duplicates <= deaths; no job is stored twice",
)
def dies_anywhere(ground: Ground, report: Report) -> None:
    patterns = ((ANY_STEP, 40), (WITH_A_JOB, 12))
    points = [
        Point(pattern, number, after)
        for pattern, most in patterns
        for number in range(1, most + 1)
        for after in (False, True)
    ]
    points = ground.pick(smoke=ground.dice.sample(points[:20], 4) + ground.dice.sample(points[80:], 8), full=points)
    server = ground.server()
    client = ground.client(server.url)
    fleet = ground.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES=NO_PILLS)
    acked: dict[str, str] = {}
    for point in points:
        for kind in KINDS:
            acked[push(client, kind)] = kind
        acked[push(client, "Work", at=time.time() + 0.01)] = "Work"
        die_at(fleet, point)
    for kind in DEADLY:
        acked[push(client, kind)] = kind
    finish(ground, fleet, server, acked)

    mortal = {jid for jid, kind in acked.items() if kind == "Dying"}
    report.tally = ground.tally([jid for jid in acked if jid not in mortal], server)
    report.nothing_missing()
    dead = Counter(json.loads(raw)["jid"] for raw in server.raw.zrange("dead", 0, -1))
    report.count(
        f"out of tries and in the dead set {len(mortal)}, got {len(mortal & dead.keys())}", mortal <= dead.keys()
    )
    report.count(f"stored twice 0, got {dead.total() - len(dead)}", dead.total() == len(dead))
    crashes = ground.ledger.counts("crashes")
    died = crashes.total() + len(DEADLY)
    report.count(f"duplicates <= deaths: {report.tally.duplicated} <= {died}", report.tally.duplicated <= died)
    report.figure("deaths", died)
    report.figure("points", ", ".join(f"{name} {times}" for name, times in sorted(crashes.items())))
    report.partial.append("batches are tested in tests/process/ext/batches")


def push(client: Client, kind: str, *, at: float | None = None) -> str:
    retry = 0 if kind == "Dying" else 5
    job: dict[str, object] = {"class": f"scoreboard.{kind}", "args": [], "jid": new_jid(), "retry": retry}
    client.push(job | ({"at": at} if at else {}))
    return str(job["jid"])


def push_due_jobs(client: Client, server: Server) -> list[str]:
    """Push due jobs into both sorted sets."""
    scheduled = [push(client, "Work", at=time.time() + 0.02) for _ in range(3)]
    retried = {new_jid(): 1 for _ in range(3)}
    job: dict[str, object] = {"class": "scoreboard.Work", "args": [], "queue": "default"}
    server.raw.zadd("retry", {json.dumps(job | {"jid": jid}): score for jid, score in retried.items()})
    return [*scheduled, *retried]


def die_at(fleet: Fleet, point: Point) -> None:
    """Start a worker that dies at the crash point; kill it if it does not reach it."""
    worker = fleet.start("-c", "1", wait=False, **{VARIABLE: point.as_text()})
    with suppress(AssertionError):  # it may die before it runs
        worker.until_running()
    with suppress(TimeoutExpired):
        worker.process.wait(DIES_WITHIN_SECONDS)
    if worker.runs:
        worker.kill()


def finish(ground: Ground, fleet: Fleet, server: Server, acked: dict[str, str]) -> None:
    """Run all remaining jobs with healthy workers, replace workers that a job kills, and make retries due at once."""
    wanted = sum(kind != "Dying" for kind in acked.values())
    worker = fleet.start("-c", "4", wait=False)
    give_up = time.monotonic() + 60
    while (ground.ledger.size() < wanted or server.raw.zcard("retry")) and time.monotonic() < give_up:
        if not worker.runs:
            worker = fleet.start("-c", "4", wait=False)
        for member, score in server.raw.zrange("retry", 0, -1, withscores=True):
            if score > time.time():
                server.raw.zadd("retry", {member: 1}, xx=True)
        time.sleep(0.1)
    ground.settled(server)
