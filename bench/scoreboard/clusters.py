"""A Cluster of three primaries with replicas: its nodes are killed, frozen and restarted, and its slots migrate.

All keys of a server of the configuration are in one slot, so each fault hits the primary that holds all jobs.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from bench.scoreboard.effects import RAN
from bench.scoreboard.failover import Pusher
from bench.scoreboard.ground import Fleet, Ground, until
from bench.scoreboard.row import Report, Tally, row
from offsider import Client
from offsider.embedded import find_server_binary
from tests.clusters import Cluster, running

THREADS, PROCESSES = 4, 2
#: In each thread of a worker, a job may run whose acknowledgement fails.
RUNNING = THREADS * PROCESSES
#: In a failover, the job before it as well: the replica may lack its acknowledgement.
NOT_REPLICATED = 2 * RUNNING
#: Duration of the jobs of a backlog.
BACKLOG_MS = 10


@dataclass
class Load:
    """Pushes and a drain on a Cluster.

    Attributes:
        backlog: jids of the jobs that were stored before the workers started.
    """

    ground: Ground
    cluster: Cluster
    client: Client
    fleet: Fleet
    pusher: Pusher
    backlog: list[str]

    def note_backlog(self, report: Report) -> None:
        """Check that the fault has interrupted the drain of the backlog."""
        left = len(self.backlog) - self.ground.ledger.size()
        report.count("the fault interrupts the drain", left > RUNNING)
        report.figure("backlog left at the fault", f"{left:,}")

    def wait_for_more(self, jobs: int) -> None:
        """Wait until this number of further jobs has run."""
        wanted = self.ground.ledger.size() + jobs
        until(lambda: self.ground.ledger.size() >= wanted, 60, "the drain resumes")

    def store_other_keys(self, number: int) -> None:
        """Store keys with the hash tag, such as results and locks, for which a migration takes longer."""
        pipeline = self.cluster.primary().raw.pipeline(transaction=False)
        for one in range(number):
            pipeline.set(f"{{offsider}}:other:{one}", "x" * 100)
        pipeline.execute()

    def end(self, report: Report, most_twice: int) -> None:
        """Stop the pushes, wait for the drain, and check that each job had its effect."""
        mine, ledger = {*self.pusher.stop(), *self.backlog}, self.ground.ledger
        tried = self.pusher.tried + len(self.backlog)
        # Jobs whose push raised may have been stored, and run too.
        ledger.until(tried, quiet_seconds=5)
        with suppress(AssertionError):
            until(lambda: mine <= ledger.counts(RAN).keys(), 20)
        effects = ledger.counts(RAN)
        missing = len(mine - effects.keys())
        twice = sum(effects[jid] - 1 for jid in mine & effects.keys())
        report.tally = Tally(tried, len(mine), len(mine) - missing, missing, twice)
        report.count(f"lost 0, got {missing}", missing == 0)
        report.count(f"twice <= {most_twice}, got {twice}", twice <= most_twice)
        absent = self.fleet.missing_threads(self.client, THREADS * PROCESSES)
        report.count(f"dead threads 0, got {absent}", absent == 0)
        report.figure("pushes that raised", self.pusher.errors)


@contextmanager
def load(ground: Ground, *, wait_replicas: int = 0, backlog: bool = True) -> Generator[Load]:
    """Start a Cluster, two workers, a backlog that they drain unless it is false, and a pusher."""
    with running(ground.folder / "c", find_server_binary()) as cluster:
        client, fleet = ground.client(cluster.url), ground.workers(cluster.url)
        for worker in [fleet.start("-c", str(THREADS), wait=False) for _ in range(PROCESSES)]:
            worker.until_running()
        jobs = ground.pick(smoke=4_000, full=10_000) if backlog else 0
        pushed = client.push_bulk(
            {"class": "scoreboard.Work", "args": [[number, BACKLOG_MS] for number in range(jobs)]},
            wait_replicas=wait_replicas,
        )
        pusher = Pusher(client, pause_seconds=0.002, ms=2, wait_replicas=wait_replicas, name="scoreboard.Timed")
        try:
            until(lambda: ground.ledger.size() > 100)
            yield Load(ground, cluster, client, fleet, pusher, [jid for jid in pushed if jid])
        finally:
            pusher.stop()
            fleet.stop()


@row(
    "R33",
    "the primary of the jobs in a Cluster is killed (`kill -9`) during pushes with `wait_replicas=1` and the drain of "
    "a backlog",
    bar="acked and lost 0; duplicates <= 2 for each thread: the job that ran, and the one before it, whose "
    "acknowledgement was not replicated; workers resume < 10 s",
)
def killed_primary(ground: Ground, report: Report) -> None:
    with load(ground, wait_replicas=1) as played:
        killed = played.cluster.primary()
        began = time.monotonic()
        killed.kill()
        played.note_backlog(report)
        played.cluster.wait_for_failover(killed)
        played.wait_for_more(2)  # without a replica, each push waits for a second and raises
        resumed = time.monotonic() - began
        killed.start()
        played.cluster.wait()
        played.wait_for_more(50)
        played.end(report, most_twice=NOT_REPLICATED)
        report.timed(f"workers resume < 10 s: {resumed:.1f} s", resumed < 10)
        report.figure("resumed after", f"{resumed:.1f} s")


@row(
    "R34",
    "the slot of the jobs in a Cluster migrates 20 times in 60 s with 20,000 other keys, in turn during a push each "
    "2 ms and a push each 100 ms, between which all workers wait blocked",
    bar="acked and lost 0; twice 0; no push raises; no job waits > 2 s from its push to its start",
)
def migrating_slot(ground: Ground, report: Report) -> None:
    with load(ground, backlog=False) as played:
        played.store_other_keys(ground.pick(smoke=2_000, full=20_000))
        migrations = ground.pick(smoke=4, full=20)
        longest, next_at = 0.0, time.monotonic()
        for number in range(migrations):
            played.pusher.pause_seconds = 0.1 if number % 2 else 0.002
            next_at += ground.pick(smoke=1.0, full=3.0)
            time.sleep(max(0.0, next_at - time.monotonic()))
            began = time.monotonic()
            played.cluster.migrate()
            longest = max(longest, time.monotonic() - began)
        late = time.monotonic() - next_at
        played.end(report, most_twice=0)
        report.count("no push raises", played.pusher.errors == 0)
        waits = [int(note[0]) / 1000 for note in ground.ledger.notes("waits")]
        report.count("the wait of each job is known", len(waits) >= report.tally.acked)
        report.timed(f"{migrations} migrations in time, the last {late:.1f} s after its time", late < 3)
        report.timed(f"no job waits > 2 s: {max(waits):.2f} s", max(waits) <= 2)
        report.figure("migrations", migrations)
        report.figure("longest migration", f"{longest:.2f} s")
        report.figure("longest wait of a job", f"{max(waits):.2f} s")


@row(
    "R35",
    "the primary of the jobs in a Cluster is frozen until its replica is promoted, then continues, during pushes with "
    "`wait_replicas=1` and the drain of a backlog",
    bar="acked and lost 0; duplicates <= 2 for each thread, as in R33; workers resume < 10 s",
)
def frozen_primary(ground: Ground, report: Report) -> None:
    with load(ground, wait_replicas=1) as played:
        frozen = played.cluster.primary()
        others = [node for node in played.cluster.nodes if node is not frozen]
        began = time.monotonic()
        frozen.freeze()
        try:
            played.note_backlog(report)
            until(lambda: sum(node.role() == "master" for node in others) == len(others) // 2 + 1, 30, "a failover")
            played.wait_for_more(2)  # without a replica, each push waits for a second and raises
            resumed = time.monotonic() - began
        finally:
            frozen.thaw()
        played.cluster.wait()
        played.wait_for_more(50)
        played.end(report, most_twice=NOT_REPLICATED)
        report.timed(f"workers resume < 10 s: {resumed:.1f} s", resumed < 10)
        report.figure("resumed after", f"{resumed:.1f} s")


@row(
    "R36",
    "all six nodes of a Cluster are killed (`kill -9`) and start again, during pushes and the drain of a backlog",
    bar="acked and lost 0; duplicates <= threads; workers resume < 15 s",
)
def restarted_cluster(ground: Ground, report: Report) -> None:
    with load(ground) as played:
        began = time.monotonic()
        for node in played.cluster.nodes:
            node.kill()
        played.note_backlog(report)
        for node in played.cluster.nodes:
            node.start()
        played.cluster.wait()
        played.wait_for_more(50)
        resumed = time.monotonic() - began
        played.end(report, most_twice=RUNNING)
        report.timed(f"workers resume < 15 s: {resumed:.1f} s", resumed < 15)
        report.figure("resumed after", f"{resumed:.1f} s")
