"""The server is killed while its disk is slow: the guarantees of `appendfsync`."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report, Tally, row
from bench.scoreboard.servers import Server
from offsider import Client
from offsider.core.errors import RedisFailure
from offsider.embedded.binary import find_server_binary

SOURCE = Path(__file__).with_name("slow_disk.c")
PRODUCERS = 4
THREADS = 4
EVERYSEC_MS = 1_500
ALWAYS_MS = 30
#: Redis delays a write for up to two seconds while a sync is under way; the rest is a margin for a busy machine.
OPEN_SECONDS = 3.0


@row(
    "R32",
    "the server is killed (`kill -9`) repeatedly during pushes while its disk is slow (each `fdatasync` takes 1.5 s "
    "with `appendfsync everysec`, 30 ms with `always`), and restarted",
    bar="`always`: lost 0; `everysec`: only pushes that were acknowledged in the 3 s before a kill are lost, and their "
    "number is reported",
)
def slow_disk(ground: Ground, report: Report) -> None:
    binary = slow_server(ground.folder)
    if binary is None:
        report.skipped = "needs gcc and Linux with LD_PRELOAD"
        return
    kills = ground.pick(smoke=2, full=9)
    always = Played(ground, binary, fsync="always", slow_ms=ALWAYS_MS)
    report.tally = always.play(kills)
    report.nothing_missing()
    everysec = Played(ground, binary, fsync="everysec", slow_ms=EVERYSEC_MS)
    tally = everysec.play(kills)
    early = everysec.lost_early()
    report.count(f"everysec: lost although acknowledged > {OPEN_SECONDS:g} s before a kill 0, got {early}", early == 0)
    left = tally.buried + tally.stranded + tally.left
    report.count(f"everysec: buried, stranded or left 0, got {left}", left == 0)
    report.figure("kills", 2 * kills)
    report.figure("everysec", f"{tally.acked:,} acked, {tally.lost:,} lost")


def slow_server(folder: Path) -> Path | None:
    """Build a server program whose syncs take ``SLOW_DISK_MS`` longer; None if that is not possible."""
    compiler = shutil.which("gcc")
    if compiler is None or not Path("/proc/self").exists():
        return None
    library, program = folder / "slow_disk.so", folder / "slow-server"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    program.write_text(f'#!/bin/sh\nLD_PRELOAD={library} exec {find_server_binary()} "$@"\n')
    program.chmod(0o700)
    return program


@dataclass
class Played:
    """One server with a slow disk, and the pushes to it.

    Attributes:
        acked: jid -> start and end of its push.
        killed: start and end of each kill.
    """

    ground: Ground
    binary: Path
    fsync: str
    slow_ms: int
    acked: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    killed: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def play(self, kills: int) -> Tally:
        os.environ["SLOW_DISK_MS"] = str(self.slow_ms)
        self._server = self.ground.server(binary=self.binary, appendfsync=self.fsync)
        over = threading.Event()
        producers = [threading.Thread(target=self._produce, args=(over,)) for _ in range(PRODUCERS)]
        for producer in producers:
            producer.start()
        for _ in range(kills):
            time.sleep(self.ground.dice.uniform(2.0, 4.0))
            began = time.monotonic()
            self._server.kill()
            self.killed.append((began, time.monotonic()))
            self._server.start_again()
        time.sleep(1)
        over.set()
        for producer in producers:
            producer.join()
        self._drain(self._server)
        self._tally = self.ground.tally([*self.acked], self._server)
        return self._tally

    def _produce(self, over: threading.Event) -> None:
        client: Client = self.ground.client(self._server.url)
        number = 0
        while not over.is_set():
            number += 1
            began = time.monotonic()
            try:
                jid = client.push({"class": "scoreboard.Work", "args": [number]})
            except RedisFailure:
                time.sleep(0.01)
                continue
            if jid:
                self.acked[jid] = began, time.monotonic()
            time.sleep(0.001)

    def _drain(self, server: Server) -> None:
        waiting = int(server.raw.llen("queue:default"))
        before = self.ground.ledger.size()
        fleet = self.ground.workers(server.url)
        fleet.start("-c", str(THREADS))
        self.ground.ledger.until(before + waiting, quiet_seconds=20)
        self.ground.settled(server)
        fleet.stop()

    def lost_early(self) -> int:
        """Return the number of lost jobs whose push returned long before a kill."""
        lost = self.acked.keys() - self.ground.ledger.counts().keys()
        return sum(not any(self._in_the_open(jid, *kill) for kill in self.killed) for jid in lost)

    def _in_the_open(self, jid: str, kill_began: float, kill_done: float) -> bool:
        push_began, acked = self.acked[jid]
        return push_began <= kill_done and acked >= kill_began - OPEN_SECONDS
