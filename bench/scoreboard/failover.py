"""The master dies, and a replica is promoted."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import redis

from bench.scoreboard.ground import Ground, until
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from offsider import Client, NotReplicated, RedisFailure
from offsider.core.payload import new_jid
from offsider.embedded import find_server_binary
from offsider.embedded.folder import free_port

THREADS = 4
DOWN_AFTER_MS = 2_000
NAME = "main"


@row(
    "R5",
    "three Sentinels replace a killed master (down-after 2 s) by its replica during pushes and a drain; the replica "
    "is in sync",
    bar="acked and lost 0; pushes fail <= down-after + 3 s; workers resume < 10 s",
)
def sentinel_failover(ground: Ground, report: Report) -> None:
    master = ground.server()
    replica = ground.server(replicaof=f"127.0.0.1 {master.port}", repl_diskless_sync_delay="0")
    sentinels = [Sentinel(ground.folder / f"sentinel{number}", master.port) for number in range(3)]
    try:
        addresses = [f"127.0.0.1:{sentinel.port}" for sentinel in sentinels]
        until(lambda: is_caught_up(master), 30, "the replica has caught up")
        for sentinel in sentinels:
            until(sentinel.knows_all, 30, "every Sentinel knows the replica and the others")
        client = ground.client("redis://127.0.0.1/0", sentinels=addresses, sentinel_name=NAME)
        fleet = ground.workers(
            "redis://127.0.0.1/0", OFFSIDER_REDIS_SENTINELS=",".join(addresses), OFFSIDER_REDIS_SENTINEL_NAME=NAME
        )
        for worker in [fleet.start("-c", str(THREADS), wait=False) for _ in range(2)]:
            worker.until_running()
        pusher = Pusher(client, pause_seconds=0.001, ms=2)
        until(lambda: ground.ledger.size() > 100)
        with pusher.resting():
            until(lambda: is_caught_up(master), 30, "the replica has caught up")
            master.kill()
        killed = time.monotonic()
        until(lambda: b"master" in replica.raw.execute_command("ROLE")[0], 60, "the replica is promoted")
        before = ground.ledger.size()
        until(lambda: ground.ledger.size() > before, 60, "the drain resumes")
        resumed = time.monotonic() - killed
        until(lambda: pusher.last_at > killed, 60, "a push succeeds")
        time.sleep(ground.pick(smoke=1.0, full=10.0))
        acked = pusher.stop()
        ground.ledger.until(len(acked), quiet_seconds=30)
        ground.settled(replica)
        report.tally = ground.tally(acked, replica, pushed=pusher.tried)
        report.nothing_missing()
        missing = fleet.missing_threads(client, 2 * THREADS)
        report.count(f"dead threads 0, got {missing}", missing == 0)
        outage = pusher.longest_gap_seconds
        report.timed(
            f"pushes fail <= {DOWN_AFTER_MS / 1000 + 3:g} s: {outage:.1f} s", outage <= DOWN_AFTER_MS / 1000 + 3
        )
        report.timed(f"workers resume < 10 s: {resumed:.1f} s", resumed < 10)
        report.figure("pushes failed for", f"{outage:.1f} s")
        report.figure("workers resumed after", f"{resumed:.1f} s")
        report.figure("pushes that raised", pusher.errors)
    finally:
        for sentinel in sentinels:
            sentinel.close()


@row(
    "R6",
    "the replica is cut off for 4 s during pushes, then the master is killed and the replica promoted; pushes without"
    " and with `wait_replicas=1`",
    bar="with wait_replicas: acked and lost 0; without: the number is reported",
)
def cut_off_replica(ground: Ground, report: Report) -> None:
    plain, _ = push_while_cut_off(ground, wait_replicas=0)
    report.figure("acked without wait_replicas", f"{len(plain.acked):,}")
    report.figure("of these lost", f"{plain.lost:,}")
    waiting, errors = push_while_cut_off(ground, wait_replicas=1)
    report.tally.pushed = waiting.tried
    report.tally.acked = len(waiting.acked)
    report.tally.lost = waiting.lost
    report.tally.left = len(waiting.acked) - waiting.lost
    report.count(f"with wait_replicas: lost 0, got {waiting.lost}", waiting.lost == 0)
    report.count("some pushes raise NotReplicated", errors > 0)
    report.figure("NotReplicated", errors)


class Outcome:
    """The results of the pushes, and the contents of the promoted replica."""

    def __init__(self, tried: int, acked: list[str], stored: set[str]) -> None:
        self.tried = tried
        self.acked = acked
        self.lost = len(set(acked) - stored)


def push_while_cut_off(ground: Ground, *, wait_replicas: int) -> tuple[Outcome, int]:
    master = ground.server()
    proxy = ground.proxy(master)
    port = int(proxy.url.rpartition(":")[2].partition("/")[0])
    replica = ground.server(replicaof=f"127.0.0.1 {port}", repl_diskless_sync_delay="0")
    until(lambda: is_caught_up(master), 30, "the replica has caught up")
    pushers = [Pusher(ground.client(master.url), wait_replicas=wait_replicas) for _ in range(4)]
    until(lambda: all(len(pusher.acked) > 50 for pusher in pushers), 60)
    proxy.black_hole()
    time.sleep(ground.pick(smoke=2.5, full=4.0))
    master.kill()
    acked = [jid for pusher in pushers for jid in pusher.stop()]
    proxy.refuse()  # writes on their way to the replica never arrive
    replica.raw.replicaof("NO", "ONE")
    stored = {raw.split(b'"jid":"', 1)[1][:24].decode() for raw in replica.raw.lrange("queue:default", 0, -1)}
    tried = sum(pusher.tried for pusher in pushers)
    return Outcome(tried, acked, stored), sum(pusher.not_replicated for pusher in pushers)


class Pusher:
    """A thread that pushes one job after another, and continues after errors with a new job.

    Attributes:
        pause_seconds: between two pushes.
    """

    def __init__(
        self,
        client: Client,
        *,
        pause_seconds: float = 0.0,
        ms: float = 0,
        wait_replicas: int = 0,
        name: str = "scoreboard.Work",
    ) -> None:
        self.acked: list[str] = []
        self.tried = 0
        self.errors = 0
        self.not_replicated = 0
        self.last_at = time.monotonic()
        self.longest_gap_seconds = 0.0
        self._client = client
        self.pause_seconds = pause_seconds
        self._job = {"class": name, "args": [0, ms]}
        self._wait_replicas = wait_replicas
        self._ended = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def resting(self) -> threading.Lock:
        """A lock that blocks the next push."""
        return self._turn

    def stop(self) -> list[str]:
        """Stop, and return the jids of the pushes that returned."""
        self._ended.set()
        self._thread.join()
        return self.acked

    def _run(self) -> None:
        while not self._ended.wait(self.pause_seconds):
            with self._turn:
                self._push(new_jid())

    def _push(self, jid: str) -> None:
        self.tried += 1
        try:
            self._client.push({**self._job, "jid": jid}, wait_replicas=self._wait_replicas)
        except NotReplicated:
            self.not_replicated += 1
        except RedisFailure:
            self.errors += 1
            self._ended.wait(0.02)
        else:
            now = time.monotonic()
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - self.last_at)
            self.last_at = now
            self.acked.append(jid)


class Sentinel:
    """One Sentinel process that watches the master at a port."""

    def __init__(self, folder: Path, master_port: int) -> None:
        folder.mkdir()
        self.port = free_port()
        lines = (
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {folder}",
            f"sentinel monitor {NAME} 127.0.0.1 {master_port} 2",
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {NAME} 6000",
        )
        conf = folder / "sentinel.conf"
        conf.write_text("\n".join(lines) + "\n")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [find_server_binary(), conf, "--sentinel"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._raw: Any = redis.Redis(port=self.port)

    def knows_all(self) -> bool:
        """Return whether it knows the replica and both other Sentinels."""
        try:
            told = self._raw.sentinel_master(NAME)
        except redis.RedisError:
            return False
        return bool(told["num-slaves"] == 1 and told["num-other-sentinels"] == 2)

    def close(self) -> None:
        self._raw.close()
        self._process.kill()
        self._process.wait()


def is_caught_up(master: Server) -> bool:
    """Return whether the replica is online and has received all writes of the master."""
    replication = master.raw.info("replication")
    replica = replication.get("slave0")
    return bool(replica) and replica["state"] == "online" and replica["offset"] == replication["master_repl_offset"]
