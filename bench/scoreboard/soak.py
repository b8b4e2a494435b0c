"""All faults, for a long time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from bench.scoreboard.ground import Fleet, Ground, until
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from offsider import Client, RedisUnavailable
from tests.faults import FaultProxy
from tests.process.workers import Worker

THREADS = 4
PROCESSES = 2
FAULTS = ("kill", "term", "reset", "reset", "black hole", "freeze", "server")
ONE_PROCESS = ("kill", "term")  # the others are faults of the network or the server, and affect all threads


@row(
    "R30",
    "30 min of kills, stops, resets, black holes, frozen and killed servers, in random order, under constant load",
    bar="lost 0; buried 0; duplicates <= faults x affected threads",
    heavy=True,
)
def soak(ground: Ground, report: Report) -> None:
    seconds = ground.pick(smoke=8.0, full=1800.0)
    server = ground.server()
    game = Game(ground, server)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        game.feed_for(ground.pick(smoke=ground.dice.uniform(0.3, 0.8), full=ground.dice.uniform(1.0, 4.0)))
        game.play(ground.dice.choice(FAULTS))
    game.heal()
    ground.ledger.until(len(game.acked), quiet_seconds=40)
    ground.settled(server, seconds=20)
    report.tally = ground.tally(game.acked, server)
    report.nothing_missing()
    duplicated, most = report.tally.duplicated, threads_reached(game.played)
    report.count(f"duplicates <= faults x threads that each affects: {duplicated} <= {most}", duplicated <= most)
    report.figure("faults", ", ".join(f"{name} {times}" for name, times in sorted(game.played.items())))


def threads_reached(played: Mapping[str, int]) -> int:
    """Return the number of threads that the faults affected: each may have run one unacknowledged job."""
    return sum(times * THREADS * (1 if fault in ONE_PROCESS else PROCESSES) for fault, times in played.items())


class Game:
    """Two workers behind a proxy, and their faults."""

    def __init__(self, ground: Ground, server: Server) -> None:
        self.acked: list[str] = []
        self.played: dict[str, int] = {}
        self._ground = ground
        self._server = server
        self._proxy: FaultProxy = ground.proxy(server)
        self._client: Client = ground.client(server.url)
        self._fleet: Fleet = ground.workers(self._proxy.url)
        self._pair: list[Worker] = [self._start() for _ in range(PROCESSES)]
        for worker in self._pair:
            worker.until_running()

    def feed_for(self, seconds: float) -> None:
        """Keep the queue filled."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._server.raw.llen("queue:default") < 300:
                with suppress(RedisUnavailable):  # after a death of the server: unacknowledged pushes may be lost
                    self.acked += self._ground.push(self._client, 300, ms=2)
            time.sleep(0.05)

    def play(self, fault: str) -> None:
        self.played[fault] = self.played.get(fault, 0) + 1
        self._revive()
        place = self._ground.dice.randrange(PROCESSES)
        silence_seconds = self._ground.dice.uniform(0.2, self._ground.pick(smoke=1.0, full=6.0))
        match fault:
            case "kill":
                self._pair[place].kill()
            case "term":
                self._pair[place].send("TERM")
            case "reset":
                self._proxy.reset()
            case "black hole":
                self._proxy.black_hole()
                time.sleep(silence_seconds)
                self._proxy.release()
            case "freeze":
                self._server.freeze()
                time.sleep(silence_seconds)
                self._server.thaw()
            case _:
                self._server.kill()
                self._server.start_again()
        if fault in ONE_PROCESS:
            self._pair[place] = self._start()

    def heal(self) -> None:
        """End all faults, and ensure that two workers run; one that started while the server was away has exited."""
        self._proxy.release()
        for place, worker in enumerate(self._pair):
            until(lambda worker=worker: "running <Capsule" in worker.output or not worker.runs)  # type: ignore[misc]
            if not worker.runs:
                self._pair[place] = self._start()
                self._pair[place].until_running()

    def _revive(self) -> None:
        """Replace each worker that has ended, as a process manager would."""
        self._pair = [worker if worker.runs else self._start() for worker in self._pair]

    def _start(self) -> Worker:
        return self._fleet.start("-c", str(THREADS), "-t", "10", wait=False)
