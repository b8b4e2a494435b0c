"""Simulates idle workers in one process: python -m bench.scale.fleet URL COUNT QUEUE FILE.

Each of them has an identity, a connection pool, and the worker's own services, whose ticks one thread calls when they
are due: liveness beats, heartbeats, the search for dead owners and the scheduler. It blocks in the worker's own
blocking pop on QUEUE. The beats of a parent are sent as well. What it lacks are the threads, and the jobs.

A job in QUEUE wakes one of them, which writes the seconds since its push into FILE, acknowledges it and waits again.
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
from offsider.storage.redis import Redis
from offsider.worker.alive.liveness import Liveness
from offsider.worker.alive.ownership import Ownership
from offsider.worker.alive.sweeper import Sweeper
from offsider.worker.controls import ControlsReader, KnownControls
from offsider.worker.fetch.server_wait import MAX_POP_SECONDS, POP_LIVES
from offsider.worker.heartbeat import REPORT_SECONDS, Heartbeat
from offsider.worker.run.control_rules import ControlRules
from offsider.worker.scheduler import Scheduler
from offsider.worker.work_state import WorkState

CAPSULE = "default"


class Member:
    """One simulated worker."""

    def __init__(self, config: Config, queue: str, selector: DefaultSelector) -> None:
        self._config = config
        self._queue = queue
        self.redis: Redis = Installation.of(config).make_redis(2)
        life_seconds = config.worker.liveness_seconds
        self.ownership = Ownership(self.redis, {CAPSULE: [queue]}, life_seconds)
        self.ownership.register()
        self._pop_seconds = min(MAX_POP_SECONDS, life_seconds * POP_LIVES)
        self._heartbeat = Heartbeat(
            config,
            self.redis,
            self.ownership,
            WorkState(),
            quiet=lambda: False,
            embedded=False,
        )
        self._controls = ControlsReader(
            config,
            self.redis,
            KnownControls(),
            [ControlRules(config, self.redis)],
            identity=lambda: self._heartbeat.identity,
            on_signal=lambda _: None,
            on_pauses=lambda: None,
        )
        self.pops = BlockingPops(self.redis, selector)

    def ticks(self) -> list[Callable[[], float]]:
        """Return what is due periodically; each call returns the seconds until the next."""
        config, redis = self._config, self.redis
        return [
            self._heartbeat.tick,
            self._report,
            self._controls.tick,
            Liveness(config, self.ownership, ()).tick,
            Sweeper(config, redis, self.ownership).tick,
            Scheduler(config, redis, Client(config, redis)).tick,
        ]

    def _report(self) -> float:
        self._heartbeat.report()
        return REPORT_SECONDS

    def wait(self) -> None:
        """Block on the queue, unless it does already."""
        self.pops.start(self.ownership.owner(CAPSULE), [self._queue], self._pop_seconds)


def main(url: str, count: int, queue: str, file: Path) -> None:
    config = Config()
    config.redis.url = url
    selector = DefaultSelector()
    members: dict[str, Member] = {}
    due: list[tuple[float, int, Callable[[], float]]] = []
    numbers, now = itertools.count(), time.monotonic()
    for place in range(count):
        member = Member(config, queue, selector)
        members[member.ownership.identity] = member
        # Spread over a few seconds, as the workers of a fleet do not start at one moment.
        due += [(now + min(5.0, count / 20) * place / count, next(numbers), tick) for tick in member.ticks()]
        member.wait()
    heapq.heapify(due)
    fresh = {number for _, number, _ in due}
    with file.open("a", buffering=1) as log:
        while True:
            for key, _ in selector.select(max(0.0, due[0][0] - time.monotonic())):
                pop: BlockingPop = key.data
                member = members[pop.owner.identity]
                member.pops.read(pop)
                for entry in member.pops.take():
                    pushed_ns: int = json.loads(entry.raw)["args"][0]
                    log.write(f"{(time.monotonic_ns() - pushed_ns) / 1e9}\n")
                    working.acknowledge(member.redis, entry)
                member.wait()
            while due[0][0] <= time.monotonic():
                _, number, tick = heapq.heappop(due)
                pause_seconds = max(0.005, tick())
                heapq.heappush(due, (time.monotonic() + pause_seconds, number, tick))
                if number in fresh:
                    fresh.remove(number)
                    if not fresh:  # every connection is open
                        print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
