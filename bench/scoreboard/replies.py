"""Lost replies: the server executed a command, but the client cannot know."""

from __future__ import annotations

import time
from contextlib import suppress

from bench.scoreboard.ground import Ground, fences
from bench.scoreboard.holdings import jids
from bench.scoreboard.row import Report, row
from offsider import RedisUnavailable
from offsider.core.payload import new_jid

THREADS = 4
#: Contained in every claim and every outcome, and in no push.
PRIVATE_LIST = b"offsider:working:"


@row(
    "R9",
    "the reply to a push is lost, 1,000 times; then each caller pushes the same payload again",
    bar="every push raises an ambiguous error; duplicates stored 0; those of the second push are counted",
)
def push_reply_lost(ground: Ground, report: Report) -> None:
    jobs = ground.pick(smoke=200, full=1_000)
    server = ground.server()
    proxy = ground.proxy(server)
    client = ground.client(proxy.url)
    payloads: dict[str, dict[str, object]] = {}
    for number in range(jobs):
        jid = new_jid()
        payloads[jid] = {"class": "scoreboard.Work", "args": [number], "jid": jid}
    errors = 0
    for payload in payloads.values():
        proxy.lose_reply(b"scoreboard.Work")
        try:
            client.push(payload)
        except RedisUnavailable as error:
            errors += error.ambiguous
    stored = jids(server.raw.lrange("queue:default", 0, -1))
    report.count(f"errors {jobs}, got {errors}", errors == jobs)
    report.count(f"stored twice 0, got {len(stored) - len(set(stored))}", len(stored) == len(set(stored)))
    report.count(f"stored {jobs}, got {len(set(stored))}", len(set(stored)) == jobs)

    for payload in payloads.values():
        client.push(payload)
    ground.workers(server.url).start("-c", str(THREADS))
    ground.ledger.until(jobs, quiet_seconds=20)
    while server.raw.llen("queue:default"):
        time.sleep(0.02)
    ground.settled(server)
    report.tally = ground.tally([*payloads], server, pushed=2 * jobs)
    report.nothing_missing()
    report.figure("errors", errors)
    report.figure("duplicates when callers push again", report.tally.duplicated)


@row(
    "R10",
    "the reply to a claim or to an outcome is lost, 1,000 times",
    bar="stranded 0 after one heartbeat; lost 0; no worker declared dead",
)
def claim_or_outcome_reply_lost(ground: Ground, report: Report) -> None:
    faults = ground.pick(smoke=40, full=1_000)
    server = ground.server()
    proxy = ground.proxy(server)
    client = ground.client(server.url)
    worker = ground.workers(proxy.url).start("-c", str(THREADS))
    acked: list[str] = []
    give_up = time.monotonic() + ground.pick(smoke=90, full=2_400)
    planned = 0
    while proxy.lost < faults and time.monotonic() < give_up:
        if server.raw.llen("queue:default") < 50:
            acked += ground.push(client, 50, ms=2)
        if planned == proxy.lost and planned < faults:
            time.sleep(ground.dice.uniform(0.0, 0.02))  # so that faults hit both claims and outcomes
            proxy.lose_reply(PRIVATE_LIST)
            planned += 1
        time.sleep(0.005)
    ground.ledger.until(len(acked), quiet_seconds=20)
    ground.settled(server, seconds=10)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"replies lost {faults}, got {proxy.lost}", proxy.lost == faults)
    report.count("the worker still runs", worker.runs)
    report.count("no worker was declared dead", fences(server) == 0)
    report.figure("replies lost", proxy.lost)
    with suppress(AssertionError):
        worker.stopped()
