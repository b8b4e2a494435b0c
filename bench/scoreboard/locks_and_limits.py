"""Unique and limited jobs whose workers are killed."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.scoreboard import batches
from bench.scoreboard.effects import RAN
from bench.scoreboard.fleet import APPLICATION, declared_jobs, remaining
from bench.scoreboard.ground import Ground, until_more
from bench.scoreboard.holdings import Holdings
from bench.scoreboard.inside import Outside
from bench.scoreboard.row import Report, row
from offsider import Client, Config
from offsider.ext.unique import Locks
from offsider.inspector import Controls

THREADS = 4
LIMIT = 3
CHUNK = 20
#: Lock duration of `guarded.briefly`.
BRIEFLY_SECONDS = 10
#: A queue without workers, which the row deletes while its jobs are locked.
NOWHERE = "nowhere"
LATE_SECONDS = 1.0


@row(
    "R28",
    "unique jobs, each pushed twice, jobs with a concurrency limit of three, and batches with callbacks and children, "
    "in 2 processes of 4 threads, one of which is killed (`kill -9`) each second; a queue with locked jobs is deleted",
    bar="of duplicate jobs one is stored; lost 0; duplicates <= kills x threads; no limit is exceeded inside the jobs; "
    "each lock is released within its time; no slot is left; each batch ends; each callback is pushed once, none early",
)
def locks_and_limits(ground: Ground, report: Report) -> None:
    server, declared, config = ground.server(), declared_jobs(ground), Config()
    config.redis.url = server.url
    declared.configure(config)
    client, outside = Client(config), Outside(ground.ledger.path)
    orphans = declared.briefly.using(queue=NOWHERE).via(client).enqueue_many([(number,) for number in range(50)])
    orphaned_at = time.monotonic()
    server.raw.delete(f"queue:{NOWHERE}")
    report.count("jobs of the deleted queue were locked", all(orphans) and len(list(Locks(config))) == len(orphans))

    keys = ground.pick(smoke=400, full=10_000)
    firsts: list[str] = []
    seconds: list[str] = []
    others: list[str] = []
    for start in range(0, keys, CHUNK):  # so that each kind is present from the beginning to the end
        numbers = [(number,) for number in range(start, start + CHUNK)]
        firsts += declared.once.via(client).enqueue_many(numbers)
        seconds += declared.once.via(client).enqueue_many(numbers)
        others += declared.briefly.via(client).enqueue_many([(1_000_000 + start,)])
        others += declared.limited.via(client).enqueue_many([(*number, 5) for number in numbers])
        for dies in (False, True):
            declared.batch_jobs.push_batch(client, config, dies=dies)
    report.count("only the first of equal jobs is stored", all(firsts) and not any(seconds))
    acked = [jid for jid in (*firsts, *others) if jid]
    fleet = ground.workers(server.url)
    pair = [fleet.start("-c", str(THREADS), wait=False, app=APPLICATION) for _ in range(2)]
    kills, total = 0, len(acked)
    slice_, pause = ground.pick(smoke=total // 6, full=total), ground.pick(smoke=20.0, full=1.0)
    while until_more(ground, slice_, of=total * 0.98, seconds=pause):
        pid = pair[kills % 2].pid
        pair[kills % 2].kill()
        outside.killed(pid)
        pair[kills % 2] = fleet.start("-c", str(THREADS), wait=False, app=APPLICATION)
        kills += 1
    ground.ledger.until(total, quiet_seconds=30)
    ran_at = time.monotonic()
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    duplicated = report.tally.duplicated
    report.count(f"duplicates <= kills x threads: {duplicated} <= {kills * THREADS}", duplicated <= kills * THREADS)
    unknown = len(ground.ledger.counts(RAN).keys() - set(acked))
    report.count(f"effects of jobs that were dropped 0, got {unknown}", unknown == 0)
    for group, limit in {"limited": LIMIT, "once": 1}.items():
        most = outside.most(group)
        report.count(f"{group}: at most {limit} at one time, seen {most}", 0 < most <= limit)
    least = ground.pick(smoke=1, full=100)
    report.count(f"kills >= {least}: {kills}", kills >= least)
    report.figure("kills", kills)
    judge_the_rest(report, config, orphaned_at, ran_at)
    remaining(lambda: batches.unfinished(batches.statuses(config, server)))
    remaining(lambda: len(Holdings.of(server.raw).unfinished))
    noted, found = batches.Noted.of(ground.ledger), batches.statuses(config, server)
    batches.judge(report, noted, found, most_repeated=kills * THREADS)
    outside.close()


def judge_the_rest(report: Report, config: Config, orphaned_at: float, ran_at: float) -> None:
    """Check that all locks and slots are released in time."""
    brief = "fleet.Briefly"

    def left(counts: Callable[[str], bool]) -> int:
        return sum(counts(lock.job_name) for lock in Locks(config))

    patience = BRIEFLY_SECONDS + LATE_SECONDS
    late = remaining(lambda: left(lambda name: name == brief), max(0.0, orphaned_at + patience - time.monotonic()))
    report.count(f"locks of {BRIEFLY_SECONDS} s that are there longer 0, got {late}", late == 0)
    held = remaining(lambda: left(lambda name: name != brief))
    report.count(f"locks left 0, got {held}", held == 0)
    report.figure("seconds until the last lock was freed", time.monotonic() - ran_at)
    slots = remaining(lambda: sum(group.in_use + group.held for group in Controls(config).groups()))
    report.count(f"slots in use and jobs held at the end 0, got {slots}", slots == 0)
