"""The master dies, and a replica is promoted."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import redis

from bench.scoreboard.environment import Environment
from bench.scoreboard.pusher import Pusher
from bench.scoreboard.row import Report, Tally, row
from bench.servers import Server
from offsider.embedded import find_server_binary
from offsider.embedded.folder import free_port
from tests.waiting import wait_for

THREADS, PROCESSES = 4, 2
DOWN_AFTER_MS = 2_000
MAX_OUTAGE_SECONDS = DOWN_AFTER_MS / 1000 + 3
NAME = "main"


@row(
    "R5",
    "three Sentinels replace a killed master (down-after 2 s) by its replica during pushes and a drain; the replica "
    "is in sync",
    bar="acked and lost 0; pushes fail <= down-after + 3 s; workers resume < 10 s",
)
def sentinel_failover(env: Environment, report: Report) -> None:
    master = env.server()
    replica = replica_of(env, master, master.port)
    sentinels = [Sentinel(env.folder / f"sentinel{number}", master.port) for number in range(3)]
    try:
        addresses = [f"127.0.0.1:{sentinel.port}" for sentinel in sentinels]
        for sentinel in sentinels:
            wait_for(sentinel.knows_all, 30, "every Sentinel knows the replica and the others")
        client = env.client("redis://127.0.0.1/0", sentinels=addresses, sentinel_name=NAME)
        fleet = env.workers(
            "redis://127.0.0.1/0", OFFSIDER_REDIS_SENTINELS=",".join(addresses), OFFSIDER_REDIS_SENTINEL_NAME=NAME
        )
        fleet.start_all(PROCESSES, "-c", str(THREADS))
        pusher = Pusher(client, pause_seconds=0.001, ms=2)
        wait_for(lambda: env.ledger.size() > 100)
        with pusher.pushing:
            wait_for(lambda: is_caught_up(master), 30, "the replica has caught up")
            master.kill()
        killed = time.monotonic()
        wait_for(lambda: b"master" in replica.raw.execute_command("ROLE")[0], 60, "the replica is promoted")
        env.seconds_to_resume()
        resumed = time.monotonic() - killed
        wait_for(lambda: pusher.last_at > killed, 60, "a push succeeds")
        time.sleep(env.pick(smoke=1.0, full=10.0))
        acked = pusher.stop()
        env.finish(report, acked, replica, pushed=pusher.tried)
        report.nothing("dead threads", fleet.missing_threads(client, PROCESSES * THREADS))
        report.within("pushes failed for", pusher.longest_gap_seconds, MAX_OUTAGE_SECONDS)
        report.within("workers resumed after", resumed, 10)
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
def cut_off_replica(env: Environment, report: Report) -> None:
    pushers, lost = push_while_cut_off(env, wait_replicas=0)
    report.figure("acked without wait_replicas", f"{sum(len(pusher.acked) for pusher in pushers):,}")
    report.figure("of these lost", f"{lost:,}")
    pushers, lost = push_while_cut_off(env, wait_replicas=1)
    refused = sum(pusher.not_replicated for pusher in pushers)
    acked = sum(len(pusher.acked) for pusher in pushers)
    report.tally = Tally(pushed=sum(pusher.tried for pusher in pushers), acked=acked, lost=lost, left=acked - lost)
    report.nothing("with wait_replicas: lost", lost)
    report.count("some pushes raise NotReplicated", refused > 0)
    report.figure("NotReplicated", refused)


def push_while_cut_off(env: Environment, *, wait_replicas: int) -> tuple[list[Pusher], int]:
    """Push while the replica is cut off, and promote it; return the pushers, and the number of lost jobs."""
    master = env.server()
    proxy = env.proxy(master.url)
    replica = replica_of(env, master, int(proxy.url.rpartition(":")[2].partition("/")[0]))
    pushers = [Pusher(env.client(master.url), wait_replicas=wait_replicas) for _ in range(4)]
    wait_for(lambda: all(len(pusher.acked) > 50 for pusher in pushers), 60)
    proxy.black_hole()
    time.sleep(env.pick(smoke=2.5, full=4.0))
    master.kill()
    acked = {jid for pusher in pushers for jid in pusher.stop()}
    proxy.refuse()  # writes on their way to the replica never arrive
    replica.raw.replicaof("NO", "ONE")
    stored = {raw.split(b'"jid":"', 1)[1][:24].decode() for raw in replica.raw.lrange("queue:default", 0, -1)}
    return pushers, len(acked - stored)


def replica_of(env: Environment, master: Server, port: int) -> Server:
    """Start a replica that reaches the master at this port."""
    replica = env.server(replicaof=f"127.0.0.1 {port}", repl_diskless_sync_delay="0")
    wait_for(lambda: is_caught_up(master), 30, "the replica has caught up")
    return replica


def is_caught_up(master: Server) -> bool:
    """Return whether the replica is online and has received all writes of the master."""
    replication = master.raw.info("replication")
    replica = replication.get("slave0")
    return bool(replica) and replica["state"] == "online" and replica["offset"] == replication["master_repl_offset"]


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
            master = self._raw.sentinel_master(NAME)
        except redis.RedisError:
            return False
        return bool(master["num-slaves"] == 1 and master["num-other-sentinels"] == 2)

    def close(self) -> None:
        self._raw.close()
        self._process.kill()
        self._process.wait()
