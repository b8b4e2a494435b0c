"""Processes that die between two steps."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from subprocess import TimeoutExpired
from typing import Any

from bench.scoreboard import batches
from bench.scoreboard.crash import VARIABLE, Point
from bench.scoreboard.environment import APPLICATION as PLAIN, Environment, Fleet, config_of
from bench.scoreboard.ledger import Ledger
from bench.scoreboard.locks_and_limits import APPLICATION, declared_jobs
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_jobs import StoredJobs
from bench.servers import Server
from offsider import Client
from offsider.core.job_id import JobId
from offsider.core.payload import new_jid

#: A request that moves a due job: it contains a sorted set and a queue, and no private list.
MOVE = r"\A(?!.*offsider:working:).*\r\n(?:retry|schedule)\r\n.*queue:"
#: A request that reads or writes a job.
ANY_STEP = r"offsider:working:|queue:|\r\n(?:retry|schedule|dead)\r\n"
#: A request with the payload of a job: its outcome, or a move.
WITH_A_JOB = r"scoreboard\."
#: The scripts of batches and results: a request that contains one.
SCRIPTS = {
    "open": r"-open\r\n\$\d+\r\n\S+-cbsucc\r\n",
    "join": r"-jids\r\n(?!.*-failed)",
    "advance": r"-open\r\n\$\d+\r\n\S+-pkids\r\n",
    "begin": r"\r\nrunning\r\n",
    "settle": r"offsider:results:done:",
    "cancel": r"offsider:results:cancel\r\n\$\d+\r\n\[",
}
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
def scheduler_dies(env: Environment, report: Report) -> None:
    deaths = env.pick(smoke=6, full=1_000)
    server = env.server()
    client = env.client(server.url)
    fleet = env.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES=NO_PILLS)
    acked: list[str] = []
    for _ in range(deaths):
        acked += push_due_jobs(client, server)
        server.raw.delete(SCHEDULER_LEASE)  # of the process that died: waiting for its end would take most of the row
        die_at(fleet, Point(MOVE, 1, after=env.dice.random() < 0.5))
    fleet.start("-c", "4")
    env.finish(report, acked, server)
    died = env.ledger.counts("crashes").total()
    report.at_most("duplicates <= deaths", report.tally.duplicated, died)
    report.count(f"deaths in a move >= {deaths // 2}, got {died}", died >= deaths // 2)
    report.figure("deaths in a move", died)


@row(
    "R17",
    "a worker dies at each request that claims, retries, reschedules, discards, buries, acknowledges or moves a job, "
    "changes a batch, writes a state or a result, or cancels a job, before it and after it, and before and after the "
    "effect of a job",
    bar="lost 0 at every point; duplicates <= deaths; no job is stored twice; each batch ends; each callback is pushed "
    "once, none early; no result is shown before its job is acknowledged; no job begins after it was reported as "
    "cancelled",
)
def dies_anywhere(env: Environment, report: Report) -> None:
    kinds = [(ANY_STEP, 40), (WITH_A_JOB, 12), *((script, 4) for script in SCRIPTS.values())]
    points = [
        [Point(pattern, number, after) for number in range(1, most + 1) for after in (False, True)]
        for pattern, most in kinds
    ]
    some = [point for each in points for point in env.dice.sample(each[:20], max(1, len(each) // 16))]
    server = env.server()
    declared, config = declared_jobs(env), config_of(server.url)
    declared.configure(config)
    client = Client(config)
    fleet = env.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES=NO_PILLS)
    acked: dict[str, str] = {}
    results = Results(client, server)
    for point in env.pick(smoke=some, full=[point for group in points for point in group]):
        for kind in KINDS:
            acked[push(client, kind)] = kind
        acked[push(client, "Work", at=time.time() + 0.01)] = "Work"
        acked |= dict.fromkeys(results.push(), "Kept")
        for dies in (False, True):
            declared.push_batch(client, config, dies=dies)
        die_at(fleet, point, app=APPLICATION)
        results.look()
    for kind in DEADLY:
        acked[push(client, kind)] = kind
    finish(env, fleet, server, acked)

    mortal = {jid for jid, kind in acked.items() if kind == "Dying"}
    report.tally = env.tally([jid for jid in acked if jid not in mortal], server)
    report.nothing_missing()
    dead = Counter(json.loads(raw)["jid"] for raw in server.raw.zrange("dead", 0, -1))
    report.count(
        f"out of tries and in the dead set {len(mortal)}, got {len(mortal & dead.keys())}", mortal <= dead.keys()
    )
    report.nothing("stored twice", dead.total() - len(dead))
    crashes = env.ledger.counts("crashes")
    died = crashes.total() + len(DEADLY)
    report.at_most("duplicates <= deaths", report.tally.duplicated, died)
    noted, found = batches.Noted.of(env.ledger), batches.statuses(config, server)
    batches.judge(report, noted, found, most_repeated=died)
    results.judge(report, env.ledger)
    report.figure("deaths", died)
    report.figure("points", ", ".join(f"{name} {times}" for name, times in sorted(crashes.items())))
    missed = [f"{when}:{name}" for name in SCRIPTS for when in ("before", "after") if not _played(crashes, when, name)]
    report.nothing("scripts without a death", env.pick(smoke=[], full=missed))


def _played(crashes: Iterable[str], when: str, name: str) -> bool:
    return any(crash.startswith(when) and name in crash.partition(":")[2].split("+") for crash in crashes)


class Results:
    """Jobs that keep their result, and jobs that are cancelled.

    Args:
        client: pushes them.
        server: that of the client.
    """

    def __init__(self, client: Client, server: Server) -> None:
        self._client = client
        self._server = server
        self._kept: list[JobId[int]] = []
        self._cancelled: dict[str, list[JobId[None]]] = {"retrying": [], "queued": [], "running": []}
        self._early: set[str] = set()

    def push(self) -> list[str]:
        """Push one job of each kind; return those that have an effect."""
        client, queued = self._client, new_jid()
        self._kept.append(push(client, "Kept", len(self._kept), keep_result=3600))
        retrying = push(client, "Target", True, track=True)
        cancelling = push(client, "Cancelling", retrying, queued)
        self._cancelled["retrying"].append(retrying)
        self._cancelled["queued"].append(push(client, "Target", False, jid=queued, track=True))
        self._cancelled["running"].append(push(client, "CancelsItself", track=True))
        return [self._kept[-1], cancelling]

    def look(self) -> None:
        """Note results of jobs that are still stored. No worker runs meanwhile."""
        shown = {jid for jid in self._kept if jid.status() == "succeeded"}
        self._early |= shown.intersection(StoredJobs.of(self._server.raw).unfinished)

    def judge(self, report: Report, ledger: Ledger) -> None:
        wrong = sum(jid.result(timeout=0) != number for number, jid in enumerate(self._kept))
        report.nothing("results before their acknowledgement", len(self._early))
        report.nothing("wrong results", wrong)
        for kind, jids in self._cancelled.items():
            # One that waits may begin before the job that cancels it.
            allowed = {"cancelled"} if kind == "running" else {"cancelled", "succeeded"}
            states = Counter(jid.status() for jid in jids)
            good = states.keys() <= allowed and states["cancelled"]
            report.count(f"{kind} jobs that are cancelled: {dict(states)}", good)
            report.figure(f"cancelled while {kind}", f"{states['cancelled']} of {len(jids)}")
        late = ran_although_cancelled(ledger.notes("cancelled"), ledger.notes("began"))
        report.nothing("jobs that began after they were reported as cancelled", len(late))
        report.figure("results", len(self._kept))


def ran_although_cancelled(cancelled: Iterable[Sequence[str]], began: Iterable[Sequence[str]]) -> set[str]:
    """Return the jobs that began after they were reported as cancelled; notes of jid and time."""
    reported = {jid: int(at) for jid, at in reversed([*cancelled])}
    return {jid for jid, at in began if int(at) > reported.get(jid, math.inf)}


def push(client: Client, kind: str, *args: object, at: float | None = None, **options: object) -> JobId[Any]:
    job: dict[str, object] = {"class": f"scoreboard.{kind}", "args": [*args], "retry": 0 if kind == "Dying" else 5}
    return client.push(job | options | ({"at": at} if at else {}))


def push_due_jobs(client: Client, server: Server) -> list[str]:
    """Push due jobs into both sorted sets."""
    scheduled = [push(client, "Work", at=time.time() + 0.02) for _ in range(3)]
    retried = {new_jid(): 1 for _ in range(3)}
    job: dict[str, object] = {"class": "scoreboard.Work", "args": [], "queue": "default"}
    server.raw.zadd("retry", {json.dumps(job | {"jid": jid}): score for jid, score in retried.items()})
    return [*scheduled, *retried]


def die_at(fleet: Fleet, point: Point, *, app: str = PLAIN) -> None:
    """Start a worker that dies at the crash point; kill it if it does not reach it."""
    worker = fleet.start("-c", "1", wait=False, app=app, **{VARIABLE: point.as_text()})
    with suppress(AssertionError):  # it may die before it runs
        worker.until_running()
    with suppress(TimeoutExpired):
        worker.process.wait(DIES_WITHIN_SECONDS)
    if worker.runs:
        worker.kill()


def finish(env: Environment, fleet: Fleet, server: Server, acked: dict[str, str]) -> None:
    """Run all remaining jobs with healthy workers, replace workers that a job kills, and make retries due at once."""
    wanted = sum(kind != "Dying" for kind in acked.values())
    worker = fleet.start("-c", "4", wait=False, app=APPLICATION)
    give_up = time.monotonic() + 120
    while (env.ledger.size() < wanted or StoredJobs.of(server.raw).unfinished) and time.monotonic() < give_up:
        if not worker.runs:
            worker = fleet.start("-c", "4", wait=False, app=APPLICATION)
        for member, score in server.raw.zrange("retry", 0, -1, withscores=True):
            if score > time.time():
                server.raw.zadd("retry", {member: 1}, xx=True)
        time.sleep(0.1)
    env.settled(server)
