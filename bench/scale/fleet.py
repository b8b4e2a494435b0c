"""Simulates idle workers in one process: python -m bench.scale.fleet URL COUNT QUEUE FILE.

Each simulated worker has an identity, a connection pool and the services of a real worker: liveness, heartbeat, reader
of the controls, sweeper and scheduler. One thread runs all services when they are due. Each simulated worker blocks in
BLMOVE on QUEUE. It has no threads, and runs no jobs.

A job in QUEUE wakes one simulated worker, which appends the seconds since the push to FILE, acknowledges the job and
blocks again.
"""

from __future__ import annotations

import heapq
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from selectors import DefaultSelector

from offsider import Client, Config
from offsider.config.installation import Installation
from offsider.storage import working
from offsider.storage.blocking_pops import BlockingPop, BlockingPops
from offsider.worker.alive.ownership import Liveness, Ownership
from offsider.worker.alive.sweeper import Sweeper
from offsider.worker.controls import ControlsReader, KnownControls
from offsider.worker.fetch.server_wait import MAX_POP_SECONDS, POP_LIVES
from offsider.worker.heartbeat import REPORT_SECONDS, Heartbeat
from offsider.worker.run.control_rules import ControlRules
from offsider.worker.scheduler import Scheduler
from offsider.worker.work_state import WorkState

CAPSULE = "default"
#: The simulated workers start over this time, at a rate of up to 20 per second.
MAX_START_SECONDS, STARTS_PER_SECOND = 5.0, 20
MIN_PAUSE_SECONDS = 0.005


class IdleWorker:
    """One simulated worker.

    Attributes:
        ticks: its services; each call runs one and returns the seconds until its next call.
    """

    def __init__(self, config: Config, queue: str, selector: DefaultSelector) -> None:
        self.redis = Installation.of(config).make_redis(2)
        life_seconds = config.worker.liveness_seconds
        self.ownership = Ownership(self.redis, {CAPSULE: [queue]}, life_seconds)
        self.ownership.register()
        self.pops = BlockingPops(self.redis, selector)
        self._queue = queue
        self._pop_seconds = min(MAX_POP_SECONDS, life_seconds * POP_LIVES)
        heartbeat = Heartbeat(config, self.redis, self.ownership, WorkState(), quiet=lambda: False, embedded=False)
        controls = ControlsReader(
            config,
            self.redis,
            KnownControls(),
            ControlRules(config, self.redis),
            identity=lambda: heartbeat.identity,
            on_signal=lambda _: None,
            on_pauses=lambda: None,
        )

        def report() -> float:
            heartbeat.report()
            return REPORT_SECONDS

        self.ticks: list[Callable[[], float]] = [
            heartbeat.tick,
            report,
            controls.tick,
            Liveness(config, self.ownership, ()).tick,
            Sweeper(config, self.redis, self.ownership).tick,
            Scheduler(config, self.redis, Client(config, self.redis)).tick,
        ]

    def block(self) -> None:
        """Block on the queue, unless it does already."""
        self.pops.start(self.ownership.owner(CAPSULE), [self._queue], self._pop_seconds)


def main(url: str, count: int, queue: str, file: Path) -> None:
    config = Config()
    config.redis.url = url
    selector = DefaultSelector()
    workers: dict[str, IdleWorker] = {}
    due: list[tuple[float, int, Callable[[], float]]] = []
    numbers, now = itertools.count(), time.monotonic()
    start_seconds = min(MAX_START_SECONDS, count / STARTS_PER_SECOND)
    for place in range(count):
        worker = IdleWorker(config, queue, selector)
        workers[worker.ownership.identity] = worker
        due += [(now + start_seconds * place / count, next(numbers), tick) for tick in worker.ticks]
        worker.block()
    heapq.heapify(due)
    not_started = {number for _, number, _ in due}
    with file.open("a", buffering=1) as log:
        while True:
            for key, _ in selector.select(max(0.0, due[0][0] - time.monotonic())):
                pop: BlockingPop = key.data
                worker = workers[pop.owner.identity]
                worker.pops.read(pop)
                for entry in worker.pops.take():
                    pushed_ns: int = json.loads(entry.raw)["args"][0]
                    log.write(f"{(time.monotonic_ns() - pushed_ns) / 1e9}\n")
                    working.acknowledge(worker.redis, entry)
                worker.block()
            while due[0][0] <= time.monotonic():
                _, number, tick = heapq.heappop(due)
                pause_seconds = max(MIN_PAUSE_SECONDS, tick())
                heapq.heappush(due, (time.monotonic() + pause_seconds, number, tick))
                if number in not_started:
                    not_started.remove(number)
                    if not not_started:  # every connection is open
                        print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
