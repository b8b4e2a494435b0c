"""The order of everything in a demo.

1. The folder, the library, the server, the screen.
2. Two workers, the web UI and the producers start.
3. Every moment: read the ledger on, look at the server, show it. Until the time is over, Ctrl-C, or no worker lives.
   In the middle a worker is killed with -9 (see `accident`).
4. The producers stop; the workers get a bounded time to empty everything that is due soon.
5. The workers get TERM and are waited for.
6. The account: the ledger against what is stored. Then the server stops.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from offsider.cli.demo import stored
from offsider.cli.demo.accident import Accident
from offsider.cli.demo.account import Account, Tally
from offsider.cli.demo.ledger import Ledger, LedgerReader, Line
from offsider.cli.demo.library import Library
from offsider.cli.demo.lifeline import SERVER_FOLDER
from offsider.cli.demo.pages import Pages
from offsider.cli.demo.producers import PRODUCERS, Producers
from offsider.cli.demo.screen import Screen, open_screen, picture
from offsider.cli.demo.view import EMPTYING, EVENTS, RUNNING, Rates, View
from offsider.cli.demo.workers import QUEUES, Worker
from offsider.client import Client
from offsider.core.errors import ConfigurationError
from offsider.embedded import EmbeddedServer
from offsider.inspector import Deploys, Stats
from offsider.wiring.config import Config

WORKERS = 2
LOOK_SECONDS = 0.5
TELLING_SECONDS = 2.0
DRAIN_SECONDS = 15.0
QUEUE_NAMES = tuple(queue.partition(",")[0] for queue in QUEUES)


class Conductor:
    """One demo, from start to account.

    Args:
        folder: where everything is kept; None for a temporary one.
        seconds: when the producers stop; None for at Ctrl-C.
        concurrency: of each worker.
        picture: where to save the busiest screen.

    Attributes:
        workers: every worker that was started.
        pages: the web UI, once it was started.
        tally: the ledger, added up to the last look.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        seconds: float | None = None,
        concurrency: int = 5,
        picture: Path | None = None,
    ) -> None:
        self._temporary = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="offsider-demo-")) if folder is None else folder.absolute()
        self._seconds = seconds
        self._concurrency = concurrency
        self._picture = picture
        self._ledger = Ledger(self.folder)
        self._reader = LedgerReader(self.folder)
        self.tally = Tally()
        self._rates = Rates()
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._untold: Counter[tuple[str, str]] = Counter()
        self._next_telling = 0.0
        self.workers: list[Worker] = []
        self.pages: Pages | None = None
        self._told_where = False
        self._ended: set[str] = set()
        self._accident = Accident(seconds)
        self._interrupts = 0
        self._interrupted = threading.Event()
        self._waiting = 0
        self._start = time.monotonic()

    def run(self) -> Account:
        """Play it all, print the last line, and answer the account."""
        with ExitStack() as stack:
            stack.enter_context(_alone_in(self.folder))
            stack.enter_context(self._signals())
            server = stack.enter_context(EmbeddedServer(self.folder / SERVER_FOLDER))
            config = Config()
            config.redis.url = server.url
            account = self._play(config)
        self._tell(account)
        return account

    def _play(self, config: Config) -> Account:
        library = Library(self.folder)
        library.fill()
        for line in self._reader.news():  # of an earlier demo in this folder
            self.tally.add([line])
        client = Client(config)
        producers = Producers(client, self._ledger, library, waiting=lambda: self._waiting, happened=self._happened)
        screen = open_screen()
        self._start = time.monotonic()
        try:
            for number in range(1, WORKERS + 1):
                self.start_worker(number, config)
            self.pages = Pages(self.folder, config.redis.url)
            Deploys(config).mark("The demo begins")
            producers.start()
            view = self._watch(screen, config)
            if self._picture is not None:
                picture(view, self._picture)
            producers.stop()
            self._drain(screen, config)
        finally:
            producers.stop()
            self._stop_workers()
            if self.pages is not None:
                self.pages.stop()
            screen.close()
        account = self._account(config)
        client.close()
        return account

    # -- workers

    def start_worker(self, number: int, config: Config) -> Worker:
        worker = Worker(number, self.folder, config.redis.url, self._concurrency)
        self.workers.append(worker)
        return worker

    def _stop_workers(self) -> None:
        living = [worker for worker in self.workers if worker.exit_code is None]
        for worker in living:
            worker.send(signal.SIGTERM)
        for worker in living:
            worker.wait()

    def _look_after_workers(self) -> bool:
        """Tell of workers that ended; False when none is left."""
        for worker in self.workers:
            if worker.exit_code is not None and worker.name not in self._ended:
                self._ended.add(worker.name)
                self._happened(f"{worker.name} ended with code {worker.exit_code}: {worker.last_words(1)}")
        return any(worker.exit_code is None for worker in self.workers)

    def _look_after_pages(self, pages: Pages) -> None:
        """Tell once where they are, or why they are not."""
        if self._told_where:
            return
        if pages.exit_code is not None:
            self._happened(f"the web UI ended with code {pages.exit_code}: {pages.last_words()}")
        elif pages.address:
            self._happened(f"the web UI is at {pages.address}")
        self._told_where = pages.exit_code is not None or bool(pages.address)

    # -- watching

    def _watch(self, screen: Screen, config: Config) -> View:
        """Show everything until it is time for the producers to stop; the busiest view of the later half."""
        busiest: View | None = None
        while True:
            view = self._look(RUNNING, config)
            screen.show(view)
            if busiest is None or view.waiting > busiest.waiting or view.seconds > 2 * busiest.seconds:
                busiest = view
            if not self._look_after_workers() or self._interrupted.is_set():
                return busiest
            self._have_the_accident(config)
            left = LOOK_SECONDS if self._seconds is None else self._seconds - self._elapsed()
            if left <= 0:
                return busiest
            self._interrupted.wait(min(LOOK_SECONDS, left))

    def _have_the_accident(self, config: Config) -> None:
        """Kill a worker when it is time, and start another one in its place."""
        if self._accident.due(self._elapsed(), self.workers, self.tally):
            victim = self.workers[0]
            self._happened(self._accident.happen(self._elapsed(), victim, self.tally, self._read_on))
            self._ended.add(victim.name)
            self.start_worker(len(self.workers) + 1, config)
        self._tell_who_is_back()

    def _tell_who_is_back(self) -> None:
        news = self._accident.news(self._elapsed(), self.tally)
        if news is not None:
            self._happened(news)

    def _drain(self, screen: Screen, config: Config) -> None:
        """Let the workers finish what is there; a further Ctrl-C, or the time, ends it early."""
        until = time.monotonic() + DRAIN_SECONDS
        enough = 2 if self._interrupted.is_set() else 1
        while time.monotonic() < until and self._interrupts < enough and self._look_after_workers():
            view = self._look(EMPTYING, config)
            screen.show(view)
            self._tell_who_is_back()
            if not (view.waiting or view.scheduled or view.retries or stored.other_keys(config)):
                return
            time.sleep(LOOK_SECONDS / 2)

    def _look(self, phase: str, config: Config) -> View:
        self._read_on()
        if self.pages is not None:
            self._look_after_pages(self.pages)
        stats = Stats.read(config)
        self._waiting = stats.enqueued
        return View(
            phase=phase,
            seconds=self._elapsed(),
            of_seconds=self._seconds,
            where=config.redis.url,
            pages=self.pages.address if self.pages is not None else "",
            queues={name: stats.queues.get(name, 0) for name in QUEUE_NAMES},
            workers={worker.name: _state(worker) for worker in self.workers},
            processed=len(self.tally.done),
            failed=self.tally.failed,
            retried=self.tally.retried,
            postponed=self.tally.postponed,
            scheduled=stats.scheduled,
            retries=stats.retries,
            dead=stats.dead,
            rates=self._rates.whole_seconds(),
            events=tuple(self._events),
        )

    def _read_on(self) -> None:
        news = list(self._reader.news())
        self.tally.add(news)
        self._rates.add(int(self._elapsed()), sum(line.word in {"done", "failed", "postponed"} for line in news))
        self._tell_some(news)

    def _tell_some(self, news: list[Line]) -> None:
        """Now and then one event for each kind of happening, however often it happened."""
        self._untold.update((line.word, line.name) for line in news if line.word in SENTENCES)
        if time.monotonic() < self._next_telling:
            return
        self._next_telling = time.monotonic() + TELLING_SECONDS
        for (word, name), count in sorted(self._untold.items()):
            self._happened(f"{name} {SENTENCES[word]}" + ("" if count == 1 else f" ({count} times)"))
        self._untold.clear()

    def _happened(self, what: str) -> None:
        self._events.append(f"{self._elapsed():6.1f} s  {what}")

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    # -- the end

    def _account(self, config: Config) -> Account:
        dead, others = stored.dead_keys(config), stored.other_keys(config)
        self.tally.add(self._reader.news())
        return self.tally.settle(dead=dead, stored=others)

    def _tell(self, account: Account) -> None:
        sources = f"{PRODUCERS} producers and of jobs themselves"
        print(f"\n{account.jobs} jobs of {sources}, run by {len(self.workers)} workers; {account.twice} ran twice.")
        if str(self._accident):
            print(self._accident)
        if account.lost or len(self._ended) == len(self.workers):
            for worker in self.workers:
                print(f"{worker.name} said last:\n{worker.last_words()}")
        if self._temporary and not account.lost:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"Ledger, logs and the server's data are in {self.folder}")
        print(account, flush=True)

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Ctrl-C and TERM end the demo in order."""

        def note(*_: object) -> None:
            self._interrupts += 1
            self._interrupted.set()

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


SENTENCES = {
    "failed": "failed",
    "postponed": "asked to run later",
    "cut-short": "was cut short by the stop and is back in its queue",
    "gave-up": "gave up and is in the dead set",
}


def _state(worker: Worker) -> str:
    code = worker.exit_code
    return f"runs, pid {worker.pid}" if code is None else f"ended with code {code}"


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """Two demos in one folder would add up each other's jobs."""
    import fcntl  # POSIX only; the rest of the command line works without

    descriptor = os.open(folder / "demo.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"another demo runs in {folder}; choose another --folder") from None
        yield
    finally:
        os.close(descriptor)
