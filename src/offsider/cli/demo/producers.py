"""Threads that order batches of texts for as long as the demo runs, and sometimes push what is no job."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from offsider.cli.demo.jobs import PrintCover, count_words, sum_up
from offsider.cli.demo.ledger import Ledger
from offsider.cli.demo.library import Library
from offsider.client import Client
from offsider.core.errors import RedisFailure
from offsider.core.payload import new_jid
from offsider.wiring.propagation import context

PRODUCERS = 3
TEXTS_PER_BATCH = 6
LATE_EVERY = 4  # every so many-th batch gets its last text late
PAUSE_SECONDS = 0.7
MOST_BATCHES = 9  # ordered at once, so that the queues fill and empty
POISON_EVERY_SECONDS = 4.0
ENOUGH_WAITING = 400  # a producer that sees so many jobs in the queues waits


class Producers:
    """Starts, pauses and stops the producers.

    Args:
        client: pushes.
        ledger: where acknowledged pushes are noted.
        library: has the texts.
        waiting: how many jobs are in the queues.
        happened: told what is worth showing.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        library: Library,
        *,
        waiting: Callable[[], int],
        happened: Callable[[str], None],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._library = library
        self._waiting = waiting
        self._happened = happened
        self._stop = threading.Event()
        self._orders = 0
        self._lock = threading.Lock()
        self._next_poison = time.monotonic() + POISON_EVERY_SECONDS / 2
        self._threads = [
            threading.Thread(target=self._produce, args=(random.Random(number),), name=f"producer-{number}")
            for number in range(PRODUCERS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop ordering; returns when the last order is complete."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _produce(self, draw: random.Random) -> None:
        texts = self._library.names()
        while not self._stop.wait(PAUSE_SECONDS * draw.uniform(0.5, 1.5)):
            if self._waiting() > ENOUGH_WAITING:
                continue
            try:
                for _ in range(draw.randint(1, MOST_BATCHES)):
                    with context(caller_id=threading.current_thread().name):
                        self._order(draw.sample(texts, TEXTS_PER_BATCH))
                self._poison_sometimes()
            except RedisFailure as error:
                # What was not acknowledged is not in the ledger; the producer tries the next batch.
                self._happened(f"a push failed: {error}")

    def _order(self, texts: list[str]) -> None:
        """One batch: its summary for later, its cover, its texts."""
        number = self._next_order()
        batch = f"batch-{new_jid()[:12]}"
        self._library.open_batch(batch)
        self._ledger.pushed(sum_up.via(self._client).enqueue_in(1.0, batch, len(texts)), "sum_up")
        self._ledger.pushed(PrintCover.via(self._client).enqueue(batch, number), "print_cover")
        count = count_words.via(self._client)
        *most, last = texts
        for jid in count.enqueue_many(count.call(batch, text) for text in most):
            self._ledger.pushed(jid, "count_words")
        late = number % LATE_EVERY == 0
        self._ledger.pushed(count.enqueue_in(1.5, batch, last) if late else count.enqueue(batch, last), "count_words")

    def _next_order(self) -> int:
        with self._lock:
            self._orders += 1
            return self._orders

    def _poison_sometimes(self) -> None:
        with self._lock:
            if time.monotonic() < self._next_poison:
                return
            self._next_poison = time.monotonic() + POISON_EVERY_SECONDS
        poison = f"no-job:{new_jid()}"
        redis = self._client.redis
        redis.call("LPUSH", redis.keys.queue("texts"), poison)
        self._ledger.write("pushed", poison, "poison")
        self._happened(f"pushed bytes that are no job: {poison}")
