"""A Cluster of three primaries with replicas: its nodes are killed, frozen and restarted, and its slots migrate.

All keys of a server of the configuration are in one slot, so each fault hits the primary that holds all jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.scoreboard.environment import Environment, Fleet, remaining
from bench.scoreboard.pusher import Pusher
from bench.scoreboard.row import Report, row
from offsider import Client
from offsider.embedded import find_server_binary
from tests.clusters import Cluster, Node, running
from tests.waiting import wait_for

THREADS, PROCESSES = 4, 2
RUNNING = THREADS * PROCESSES
#: Duration of the jobs of a backlog.
BACKLOG_MS = 10
#: The jobs that run or ended within 20 ms: their acknowledgements may be lost.
MAX_TWICE = RUNNING + RUNNING * 20 // BACKLOG_MS


@dataclass
class Load:
    """Pushes and a drain on a Cluster.

    Attributes:
        backlog: jids of the jobs that were stored before the workers started.
    """

    env: Environment
    cluster: Cluster
    client: Client
    fleet: Fleet
    pusher: Pusher
    backlog: list[str]

    def note_backlog(self, report: Report) -> None:
        """Check that the fault has interrupted the drain of the backlog."""
        left = len(self.backlog) - self.env.ledger.size()
        report.count("the fault interrupts the drain", left > RUNNING)
        report.figure("backlog left at the fault", f"{left:,}")

    def store_other_keys(self, number: int) -> None:
        """Store keys with the hash tag, such as results and locks, for which a migration takes longer."""
        pipeline = self.cluster.primary().raw.pipeline(transaction=False)
        for one in range(number):
            pipeline.set(f"{{offsider}}:other:{one}", "x" * 100)
        pipeline.execute()

    def end(self, report: Report, most_twice: int) -> None:
        """Stop the pushes, wait for the drain, and check that each job had its effect."""
        acked, ledger = {*self.pusher.stop(), *self.backlog}, self.env.ledger
        tried = self.pusher.tried + len(self.backlog)
        # Jobs whose push raised may have been stored, and run too.
        ledger.until(tried, quiet_seconds=5)
        remaining(lambda: len(acked - ledger.counts().keys()), 20)
        report.tally = self.env.tally([*acked], pushed=tried)
        report.nothing("lost", report.tally.lost)
        report.at_most("duplicated", report.tally.duplicated, most_twice)
        report.nothing("dead threads", self.fleet.missing_threads(self.client, THREADS * PROCESSES))
        report.figure("pushes that raised", self.pusher.errors)


@contextmanager
def load(env: Environment, *, wait_replicas: int = 0, backlog: bool = True) -> Generator[Load]:
    """Start a Cluster, two workers, a backlog that they drain unless it is false, and a pusher."""
    with running(env.folder / "c", find_server_binary()) as cluster:
        client, fleet = env.client(cluster.url), env.workers(cluster.url)
        fleet.start_all(PROCESSES, "-c", str(THREADS))
        jobs = env.pick(smoke=4_000, full=10_000) if backlog else 0
        pushed = client.push_bulk(
            {"class": "scoreboard.Work", "args": [[number, BACKLOG_MS] for number in range(jobs)]},
            wait_replicas=wait_replicas,
        )
        pusher = Pusher(client, pause_seconds=0.002, ms=2, wait_replicas=wait_replicas, name="scoreboard.Timed")
        try:
            wait_for(lambda: env.ledger.size() > 100)
            yield Load(env, cluster, client, fleet, pusher, [jid for jid in pushed if jid])
        finally:
            pusher.stop()
            fleet.stop()


@row(
    "R33",
    "the primary of the jobs in a Cluster is killed (`kill -9`) during pushes with `wait_replicas=1` and the drain of "
    "a backlog",
    bar="acked and lost 0; duplicates <= jobs/s x 20 ms + threads; workers resume < 10 s",
)
def killed_primary(env: Environment, report: Report) -> None:
    lose_primary(env, report, Node.kill, Node.start)


@row(
    "R35",
    "the primary of the jobs in a Cluster is frozen until its replica is promoted, then continues, during pushes with "
    "`wait_replicas=1` and the drain of a backlog",
    bar="acked and lost 0; duplicates <= jobs/s x 20 ms + threads; workers resume < 10 s",
)
def frozen_primary(env: Environment, report: Report) -> None:
    lose_primary(env, report, Node.freeze, Node.thaw)


def lose_primary(
    env: Environment, report: Report, stop: Callable[[Node], None], resume: Callable[[Node], None]
) -> None:
    """Stop the primary of the jobs, and let it come back after its replica was promoted."""
    with load(env, wait_replicas=1) as played:
        primary = played.cluster.primary()
        others = [node for node in played.cluster.nodes if node is not primary]
        began = time.monotonic()
        stop(primary)
        try:
            played.note_backlog(report)
            wait_for(lambda: sum(node.role() == "master" for node in others) == len(others) // 2 + 1, 30, "a failover")
            env.seconds_to_resume(jobs=2)  # without a replica, each push waits for a second and raises
            report.within("resumed after", time.monotonic() - began, 10)
        finally:
            resume(primary)
        played.cluster.wait()
        env.seconds_to_resume(jobs=50)
        played.end(report, most_twice=MAX_TWICE)


@row(
    "R34",
    "the slot of the jobs in a Cluster migrates 20 times in 60 s with 20,000 other keys, in turn during a push each "
    "2 ms and a push each 100 ms, between which all workers wait blocked",
    bar="acked and lost 0; twice 0; no push raises; no job waits > 2 s from its push to its start",
)
def migrating_slot(env: Environment, report: Report) -> None:
    with load(env, backlog=False) as played:
        # In tier smoke other rows use the same cores, and a push may take longer than the default of a second.
        played.client.config.client.push_timeout_seconds = env.pick(smoke=10.0, full=1.0)
        played.store_other_keys(env.pick(smoke=2_000, full=20_000))
        migrations = env.pick(smoke=4, full=20)
        longest, next_at = 0.0, time.monotonic()
        for number in range(migrations):
            played.pusher.pause_seconds = 0.1 if number % 2 else 0.002
            next_at += env.pick(smoke=1.0, full=3.0)
            time.sleep(max(0.0, next_at - time.monotonic()))
            began = time.monotonic()
            played.cluster.migrate()
            longest = max(longest, time.monotonic() - began)
        late = time.monotonic() - next_at
        played.end(report, most_twice=0)
        report.nothing("pushes that raise", played.pusher.errors)
        waits = [int(note[0]) / 1000 for note in env.ledger.notes("waits")]
        report.count("the wait of each job is known", len(waits) >= report.tally.acked)
        report.timed(f"{migrations} migrations in time, the last {late:.1f} s after its time", late < 3)
        report.figure("migrations", migrations)
        report.figure("longest migration", f"{longest:.2f} s")
        report.within("longest wait of a job", max(waits), 2)


@row(
    "R36",
    "all six nodes of a Cluster are killed (`kill -9`) and start again, during pushes with `wait_replicas=1` and the "
    "drain of a backlog",
    bar="acked and lost 0; duplicates <= jobs/s x 20 ms + threads; workers resume < 15 s",
)
def restarted_cluster(env: Environment, report: Report) -> None:
    # If the primary starts slowly, its replica is promoted.
    with load(env, wait_replicas=1) as played:
        began = time.monotonic()
        for node in played.cluster.nodes:
            node.kill()
        played.note_backlog(report)
        for node in played.cluster.nodes:
            node.start()
        played.cluster.wait()
        env.seconds_to_resume(jobs=50)
        report.within("resumed after", time.monotonic() - began, 15)
        played.end(report, most_twice=MAX_TWICE)
