"""A Cluster of three primaries with replicas: its nodes are killed, frozen and restarted, and its slots migrate.

All keys of a server of the configuration are in one slot, so each fault hits the primary that holds all jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
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
#: Each process may have 100 finished or claimed jobs of which the promoted replica does not know (R1).
MOST_TWICE = 100 * PROCESSES


@dataclass
class Load:
    """Pushes and a drain on a Cluster."""

    ground: Ground
    cluster: Cluster
    client: Client
    fleet: Fleet
    pusher: Pusher

    def wait_for_more(self, jobs: int) -> None:
        """Wait until this number of further jobs has run."""
        wanted = self.ground.ledger.size() + jobs
        until(lambda: self.ground.ledger.size() >= wanted, 60, "the drain resumes")

    def longest_wait(self, during: Callable[[], None]) -> float:
        """Call a function repeatedly for the tier's time; return the longest time in which no job ran, in seconds."""
        longest, size, last = 0.0, self.ground.ledger.size(), time.monotonic()
        ends = last + self.ground.pick(smoke=4.0, full=60.0)
        while time.monotonic() < ends:
            during()
            now, grown = time.monotonic(), self.ground.ledger.size()
            longest = max(longest, now - last)
            if grown > size:
                size, last = grown, now
        return longest

    def end(self, report: Report, most_twice: int) -> None:
        """Stop the pushes, wait for the drain, and check that each job had its effect."""
        mine, ledger = set(self.pusher.stop()), self.ground.ledger
        # Jobs whose push raised may have been stored, and run too.
        ledger.until(self.pusher.tried, quiet_seconds=5)
        with suppress(AssertionError):
            until(lambda: mine <= ledger.counts(RAN).keys(), 20)
        effects = ledger.counts(RAN)
        missing = len(mine - effects.keys())
        twice = sum(effects[jid] - 1 for jid in mine & effects.keys())
        report.tally = Tally(self.pusher.tried, len(mine), len(mine) - missing, missing, twice)
        report.count(f"lost 0, got {missing}", missing == 0)
        report.count(f"twice <= {most_twice}, got {twice}", twice <= most_twice)
        absent = self.fleet.missing_threads(self.client, THREADS * PROCESSES)
        report.count(f"dead threads 0, got {absent}", absent == 0)
        report.figure("pushes that raised", self.pusher.errors)


@contextmanager
def load(ground: Ground, *, wait_replicas: int = 0, ms: float = 2) -> Generator[Load]:
    """Start a Cluster, two workers and a pusher."""
    with running(ground.folder / "c", find_server_binary()) as cluster:
        client, fleet = ground.client(cluster.url), ground.workers(cluster.url)
        for worker in [fleet.start("-c", str(THREADS), wait=False) for _ in range(PROCESSES)]:
            worker.until_running()
        pusher = Pusher(client, pause_seconds=0.002, ms=ms, wait_replicas=wait_replicas)
        try:
            until(lambda: ground.ledger.size() > 100)
            yield Load(ground, cluster, client, fleet, pusher)
        finally:
            pusher.stop()
            fleet.stop()


@row(
    "R33",
    "the primary of the jobs in a Cluster is killed (`kill -9`) during pushes with `wait_replicas=1` and a drain",
    bar="acked and lost 0; jobs whose acknowledgement was not replicated run twice, <= 100 for each process; workers "
    "resume < 10 s",
)
def killed_primary(ground: Ground, report: Report) -> None:
    with load(ground, wait_replicas=1) as played:
        killed = played.cluster.primary()
        began = time.monotonic()
        killed.kill()
        played.cluster.wait_for_failover(killed)
        played.wait_for_more(2)  # without a replica, each push waits for a second and raises
        resumed = time.monotonic() - began
        killed.start()
        played.cluster.wait()
        played.wait_for_more(50)
        played.end(report, most_twice=MOST_TWICE)
        report.timed(f"workers resume < 10 s: {resumed:.1f} s", resumed < 10)
        report.figure("resumed after", f"{resumed:.1f} s")


@row(
    "R34",
    "the slot of the jobs in a Cluster migrates 20 times in 60 s during pushes, claims and blocked waits with tracking",
    bar="acked and lost 0; twice 0; no push raises; no wait > 2 s",
)
def migrating_slot(ground: Ground, report: Report) -> None:
    with load(ground) as played:
        migrations, pause = 0, ground.pick(smoke=0.5, full=3.0)
        next_at = time.monotonic()

        def migrate() -> None:
            nonlocal migrations, next_at
            if time.monotonic() < next_at:
                time.sleep(0.01)
                return
            played.cluster.migrate()
            migrations += 1
            next_at = time.monotonic() + pause

        longest = played.longest_wait(migrate)
        played.end(report, most_twice=0)
        report.count("no push raises", played.pusher.errors == 0)
        report.count("the slot migrated", migrations > 1)
        gap = max(longest, played.pusher.longest_gap_seconds)
        report.timed(f"no wait > 2 s: {gap:.2f} s", gap <= 2)
        report.figure("migrations", migrations)
        report.figure("longest wait", f"{gap:.2f} s")


@row(
    "R35",
    "the primary of the jobs in a Cluster is frozen until its replica is promoted, then continues, during pushes with "
    "`wait_replicas=1` and a drain",
    bar="acked and lost 0; jobs whose acknowledgement was not replicated run twice, <= 100 for each process; workers "
    "resume < 10 s",
)
def frozen_primary(ground: Ground, report: Report) -> None:
    with load(ground, wait_replicas=1) as played:
        frozen = played.cluster.primary()
        others = [node for node in played.cluster.nodes if node is not frozen]
        began = time.monotonic()
        frozen.freeze()
        try:
            until(lambda: sum(node.role() == "master" for node in others) == len(others) // 2 + 1, 30, "a failover")
            played.wait_for_more(2)  # without a replica, each push waits for a second and raises
            resumed = time.monotonic() - began
        finally:
            frozen.thaw()
        played.cluster.wait()
        played.wait_for_more(50)
        played.end(report, most_twice=MOST_TWICE)
        report.timed(f"workers resume < 10 s: {resumed:.1f} s", resumed < 10)
        report.figure("resumed after", f"{resumed:.1f} s")


@row(
    "R36",
    "all six nodes of a Cluster are killed (`kill -9`) and start again, during pushes and a drain",
    bar="acked and lost 0; jobs that ran when the nodes died run twice, <= 100 for each process; workers resume < 15 s",
)
def restarted_cluster(ground: Ground, report: Report) -> None:
    with load(ground) as played:
        began = time.monotonic()
        for node in played.cluster.nodes:
            node.kill()
        for node in played.cluster.nodes:
            node.start()
        played.cluster.wait()
        played.wait_for_more(50)
        resumed = time.monotonic() - began
        played.end(report, most_twice=MOST_TWICE)
        report.timed(f"workers resume < 15 s: {resumed:.1f} s", resumed < 15)
        report.figure("resumed after", f"{resumed:.1f} s")
