"""A job that kills its process each time it runs, among harmless jobs."""

from __future__ import annotations

import json
import time

from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report, row

THREADS = 4
PILL_MS = 60
MAX_RUNS = 3
GIVE_UP_RUNS = 12


@row(
    "R12",
    "a job that kills its process by SIGKILL runs among 1,000 good jobs, each of which takes longer; 2 processes of 4"
    " threads below a parent",
    bar="the poison pill runs <= 3 times and moves to the dead set with the reason; its callback runs once; good jobs "
    "lost 0, buried 0",
)
def poison_pill(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=60, full=1_000)
    server = ground.server()
    client = ground.client(server.url)
    innocents = [[number, ground.dice.randint(2 * PILL_MS, 5 * PILL_MS)] for number in range(jobs)]
    half = jobs // 2
    acked = client.push_bulk({"class": "scoreboard.Work", "args": innocents[:half]})
    pill = client.push({"class": "scoreboard.Pill", "args": [PILL_MS], "retry": False, "dead": False})
    acked += client.push_bulk({"class": "scoreboard.Work", "args": innocents[half:]})
    fleet = ground.workers(server.url)
    parent = fleet.start("-c", str(THREADS), "--processes", "2")
    deadline = time.monotonic() + ground.pick(smoke=60, full=400)
    while time.monotonic() < deadline and ground.ledger.get("pill", str(pill)) < GIVE_UP_RUNS:
        if ground.ledger.size() >= jobs and server.raw.zcard("dead"):
            break
        time.sleep(0.05)
    # Death handlers and events run after the move.
    ground.ledger.until(1, quiet_seconds=3, table="poisoned")

    runs = ground.ledger.get("pill", str(pill))
    report.tally = ground.tally([jid for jid in acked if jid], server)
    report.nothing_missing()
    report.count("the parent still runs", parent.runs)
    report.count(f"pill runs <= {MAX_RUNS}, got {runs}", runs <= MAX_RUNS)
    dead = [json.loads(raw) for raw in server.raw.zrange("dead", 0, -1)]
    reasons = [job.get("error_message", "") for job in dead if job["jid"] == pill]
    report.count(f"the pill is in the dead set with the reason: {reasons}", len(reasons) == 1 and all(reasons))
    told = ground.ledger.get("poisoned", str(pill))
    report.count(f"its callback fires once, got {told}", told == 1)
    report.figure("pill runs", runs)
    report.figure("good jobs that ran twice", report.tally.duplicated)
