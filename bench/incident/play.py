"""Plays the incident: history, workers, pushers and faults, at their times."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import redis

from bench.incident import application
from bench.incident.application import BROKEN_RELEASE, COUNTRIES, HARMLESS, RELEASED, SLOW
from offsider import Client, Config, RedisFailure, context
from offsider.config.installation import Installation
from offsider.core.series import DURATION_SECONDS, Series
from offsider.ext.batches import Batch
from offsider.ext.periodic import PeriodicJobs
from offsider.inspector import Controls, ProcessSet
from offsider.storage import run_counts
from tests.process.workers import Worker, Workers

GOOD_RELEASE = "v41"
HISTORY_MINUTES = 60
CRASHES = ("SIGSEGV", "SIGKILL", "SIGSEGV")
TENANT = "globex-7"
OPERATOR, REASON = "kim", "the warehouse is closed"
SHOP_QUEUES = ("invoices", "payments", "mail", "images", "default")
FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "5"}


@dataclass(frozen=True)
class Size:
    """The size of an incident.

    Attributes:
        dead, waiting, newsletter, exports: number of jobs.
        orders: orders per second.
        seconds: duration.
    """

    dead: int = 5_000
    waiting: int = 20_000
    newsletter: int = 1_500
    exports: int = 447
    orders: float = 12.0
    seconds: float = 180.0


@dataclass
class Incident:
    """One incident on one server.

    ::

        with Incident(folder, url) as incident:
            incident.play()

    Args:
        folder: the folder of the workers.
        url: an empty server.
        size: its size.
        say: gets a line for each event.

    Attributes:
        times: event -> its time, in epoch seconds.
    """

    folder: Path
    url: str
    size: Size = field(default_factory=Size)
    say: Callable[[str], None] = lambda _line: None
    times: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.config = Config()
        self.config.redis.url = self.url
        application.configure(self.config)
        self.server = Installation.of(self.config)
        self.client = Client(self.config)
        self.stored: Any = redis.Redis.from_url(self.url)  # pyright: ignore[reportUnknownMemberType]
        self.workers = Workers(self.folder, self.url)
        self.main: list[Worker] = []
        self._random = random.Random(7)
        self._ended = threading.Event()
        self._pusher = threading.Thread(target=self._push_orders, name="incident-orders", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._pusher.is_alive():
            self._pusher.join(10)
        self.workers.close()
        self.stored.close()
        self.server.close()

    def play(self) -> None:
        """Play the incident from its first to its last second."""
        started = time.monotonic()
        for at, name, event in self._script():
            self._ended.wait(max(0.0, started + at * self.size.seconds / 180 - time.monotonic()))
            self.times[name] = time.time()
            self.say(name)
            event()
        self._ended.wait(max(0.0, started + self.size.seconds - time.monotonic()))

    def _script(self) -> Iterator[tuple[float, str, Callable[[], object]]]:
        yield 0, "the hour before", self.write_history
        yield 0, "dead and waiting jobs", self.write_stored
        yield 0, "the workers start", self.start_workers
        yield 0, "orders arrive", self._pusher.start
        yield 5, "a batch has a dead member", self.push_batch
        yield 6, "three jobs hang", lambda: self.push("shop.stuck_forever", [[number] for number in range(3)])
        yield 8, "newsletter is paused by an unknown client", self.pause_newsletter
        yield 10, "the worker of exports is quiet", self.quiet_exports
        yield 12, f"{OPERATOR} pauses reindex", lambda: next(iter(PeriodicJobs(self.config))).pause(by=OPERATOR)
        yield 14, f"{OPERATOR} defers sync_stock", self.defer
        yield 20, "the partner is slow", (self.folder / SLOW).touch
        yield 45, f"{BROKEN_RELEASE} is deployed", self.deploy
        yield 60, "processes crash", self.crash
        yield 75, f"{TENANT} floods bulk", self.flood

    # ------------------------------------------------------------------------------- before

    def write_history(self) -> None:
        """Write the runs of the hour before, with the usual noise, as workers write them."""
        now = time.time()
        rates = dict.fromkeys(HARMLESS, 80) | {"create_invoice": 720, "book_courier": 180, "charge_card": 720}
        rates["stuck_forever"] = 20
        for back in range(HISTORY_MINUTES, 0, -1):
            series = [self._minute(f"shop.{name}", self._noisy(rate)) for name, rate in rates.items()]
            run_counts.add(
                self.server.redis,
                series,
                now - back * 60,
                wire_version=self.config.redis.wire_version,
                release=GOOD_RELEASE,
            )

    def _noisy(self, rate: float) -> int:
        return max(1, round(self._random.gauss(rate, rate**0.5)))

    def _minute(self, name: str, runs: int) -> Series:
        failed = sum(self._random.random() < 1 / 80 for _ in range(runs)) if name == "shop.charge_card" else 0
        seconds = 0.1 if name == "shop.book_courier" else 0.01
        one = Series({"class": name, "queue": _queue_of(name), "urgency": "low"})
        one.processed, one.failed, one.satisfied = runs, failed, runs - failed
        one.run_seconds, one.queue_seconds = runs * seconds, runs * 0.01
        one.run_buckets[next(at for at, bound in enumerate(DURATION_SECONDS) if bound >= seconds)] = runs
        one.queue_buckets[0] = runs
        return one

    def write_stored(self) -> None:
        """Store dead jobs, and jobs that wait in bulk."""
        for start in range(0, self.size.waiting, 10_000):
            self.push("shop.bulk_reindex", [[n] for n in range(start, min(start + 10_000, self.size.waiting))])
        now = time.time()
        payloads = {self._dead(number, now): now - 86_400 - number % 80_000 for number in range(self.size.dead)}
        members = [*payloads.items()]
        for start in range(0, len(members), 5_000):
            self.stored.zadd("dead", dict(members[start : start + 5_000]))

    def _dead(self, number: int, now: float) -> str:

        failed_at = now - 86_400 - number % 80_000
        return json.dumps(
            {
                "class": "shop.charge_card" if number % 5 else "shop.send_mail",
                "args": [number],
                "jid": f"{number:024x}",
                "queue": "payments" if number % 5 else "mail",
                "created_at": failed_at - 3_600,
                "enqueued_at": failed_at - 1,
                "failed_at": failed_at,
                "retry_count": 5,
                "error_class": "ConnectionError",
                "error_message": "the bank did not answer",
            }
        )

    # ------------------------------------------------------------------------------- workers

    def start_workers(self) -> None:
        """Start the workers of v41: the shop's, and one each for partners, reports, exports and bulk."""
        self.main = [self._start("-c", "10", *_queues(*SHOP_QUEUES))]
        self._start("-c", "4", *_queues("partners"))
        self._start("-c", "2", "--processes", "2", *_queues("reports"))
        self.exports = self._start("-c", "2", *_queues("exports", "newsletter"))
        self._start("-c", "2", *_queues("bulk"))

    def _start(self, *options: str, release: str = GOOD_RELEASE) -> Worker:
        environ = FAST | {"OFFSIDER_CLIENT_APP_VERSION": release, "INCIDENT_PARENT": str(os.getpid())}
        return self.workers.start(*options, app="bench.incident.application", environ=environ)

    def deploy(self) -> None:
        """Start the shop's worker with the broken release, and quiet the old one, whose hanging jobs go on."""
        old = self.main
        self.main = [self._start("-c", "10", *_queues(*SHOP_QUEUES), release=BROKEN_RELEASE)]
        for worker in old:
            self._process(worker).quiet()

    def quiet_exports(self) -> None:
        """Quiet the only worker of exports and newsletter, as before a deploy that never came; then jobs arrive."""
        self._process(self.exports).quiet()
        self.push("shop.export_orders", [[n] for n in range(self.size.exports)])

    def pause_newsletter(self) -> None:
        """Pause a queue as Ruby does, without an author; then jobs arrive."""
        self.stored.sadd("paused", "newsletter")
        self.push("shop.newsletter", [[f"customer-{n}"] for n in range(self.size.newsletter)])

    def defer(self) -> None:
        """Defer a class, as an operator does."""
        Controls(self.server).defer("shop.sync_stock", 600, by=OPERATOR, reason=REASON, lasting=7_200)

    def _process(self, worker: Worker) -> Any:
        return next(process for process in ProcessSet(self.config) if process.identity == worker.identity)

    # ------------------------------------------------------------------------------- pushes

    def push(self, name: str, args: Sequence[Sequence[object]], **options: object) -> None:
        """Push jobs of a class."""
        self.client.push_bulk({"class": name, "args": args, "queue": _queue_of(name), **options})

    def _push_orders(self) -> None:
        order = 0
        while not self._ended.wait(1 / self.size.orders):
            order += 1
            with suppress(RedisFailure), context(user=f"user-{order}", project=f"project-{order % 41}"):
                self._push_order(order)

    def _push_order(self, order: int) -> None:
        country = COUNTRIES[order % len(COUNTRIES)]
        self.push("shop.create_invoice", [[order, f"customer-{order}", country]], retry=8)
        self.push("shop.charge_card", [[order]], retry=5)
        for place, name in enumerate(HARMLESS):
            if order % len(HARMLESS) == place:
                self.push(f"shop.{name}", [[order]], retry=3)
        if order % 4 == 0:
            self.push("shop.book_courier", [[order]], retry=5)
        if order % 10 == 0:
            self.push("shop.render_pdf", [[order]])

    def push_batch(self) -> None:
        """Push a batch of 300 rows, of which one fails without retries."""
        batch = Batch(description="Price list of November", config=self.config).on("success", "shop.price_list_done")
        with batch:
            self.client.push_bulk(
                {"class": "shop.import_row", "args": [[n] for n in range(300)], "retry": False, "queue": "default"}
            )

    def crash(self) -> None:
        """Push three jobs that end their process each time they run."""
        self.push("shop.render_pdf", [[number, how] for number, how in enumerate(CRASHES)])

    def flood(self) -> None:
        """Push many jobs of one tenant."""
        with context(project=TENANT):
            self.push("shop.bulk_reindex", [[n] for n in range(self.size.waiting // 4)])

    def release(self) -> None:
        """Let the hanging jobs end."""
        (self.folder / RELEASED).touch()


def _queues(*names: str) -> list[str]:
    return [word for name in names for word in ("-q", name)]


def _queue_of(name: str) -> str:
    plain = name.removeprefix("shop.")
    if plain in HARMLESS:
        return HARMLESS[plain][0]
    return _QUEUES.get(plain, "default")


_QUEUES = {
    "create_invoice": "invoices",
    "book_courier": "partners",
    "render_pdf": "reports",
    "monthly_report": "reports",
    "export_orders": "exports",
    "newsletter": "newsletter",
    "bulk_reindex": "bulk",
    "charge_card": "payments",
}
