"""The loop of the demo.

1. Start the server, two workers and the web UI.
2. Four times a second: read the ledger and the server, show them, push orders. In the middle, kill a worker.
3. After ``--seconds`` or Ctrl-C: push nothing more, and give the workers a limited time to empty the queues.
4. Stop the workers. Compare the ledger with the jobs that are stored, and print the account.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path

from rich.console import Console

from offsider.cli.boot import EMBEDDED_FOLDER
from offsider.cli.demo import jobs
from offsider.cli.demo.ledger import Account, Ledger, Tally
from offsider.cli.demo.screen import Frame, Screen
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.core.job_id import JobId
from offsider.core.wording import counted
from offsider.embedded import EmbeddedServer
from offsider.inspector import DeadSet, Deploys, HeldList, JobRecord, Queue, RetrySet, ScheduledSet, Stats
from offsider.runtime.propagation import context


class Kill:
    """Kills one worker once.

    Args:
        at_seconds: earliest time, in seconds since the start of the demo.
    """

    def __init__(self, at_seconds: float) -> None:
        self._at_seconds = at_seconds
        self._killed_at: float | None = None
        self._pid = 0
        self._jobs = ""
        self._back_seconds: float | None = None

    def is_due(self, elapsed: float, victim: subprocess.Popen[bytes], tally: Tally) -> bool:
        """True once, as soon as the worker runs jobs. An idle worker would show nothing."""
        return self._killed_at is None and elapsed >= self._at_seconds and bool(tally.running_in(victim.pid))

    def kill(self, elapsed: float, victim: subprocess.Popen[bytes], tally: Tally) -> str:
        """Kill the worker and return the event text."""
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        tally.read()  # the last lines of the worker
        self._killed_at, self._pid = elapsed, victim.pid
        self._jobs = counted(len(tally.running_in(victim.pid)), "job")
        return f"worker 1 was killed with -9 while it ran {self._jobs}"

    def recovery(self, elapsed: float, tally: Tally) -> str:
        """Return the event text once, when other workers have begun all of its jobs."""
        if self._killed_at is None or self._back_seconds is not None or tally.running_in(self._pid):
            return ""
        self._back_seconds = elapsed - self._killed_at
        return f"its {self._jobs} ran again on other workers within {self._back_seconds:.1f} s"

    def __str__(self) -> str:
        if self._killed_at is None:
            return "No worker was killed: the demo ended too early."
        back = "not recovered in time" if self._back_seconds is None else f"recovered in {self._back_seconds:.1f} s"
        return f"Worker 1 was killed with -9 after {self._killed_at:.0f} s with {self._jobs}, {back}."


QUEUES = ("orders,4", "stock,3", "payments,3", "labels,1", "reports,1")
TICK_SECONDS = 0.25
KILL_SECONDS = 15.0  # without --seconds
FAILURES_SECONDS = 2.0
DRAIN_SECONDS = 15.0
STOP_SECONDS = 10
MOST_ORDERS = 12  # per tick, so that the queues fill and empty
ENOUGH_WAITING = 400


def run(
    folder: Path | None = None, *, seconds: float | None = None, concurrency: int = 5, picture: Path | None = None
) -> Account:
    """Run a demo, print its account and return it.

    Args:
        folder: of server, ledger and logs; None for a temporary one.
        seconds: time until the pushes stop; None for until Ctrl-C.
        concurrency: of each worker.
        picture: file for an SVG of the panel.
    """
    kept = folder is not None
    folder = folder.absolute() if folder is not None else Path(tempfile.mkdtemp(prefix="offsider-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    signals: list[int] = []
    with ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.signal(number, lambda number, _: signals.append(number)))
        stack.callback(os.close, _lock(folder))
        server = stack.enter_context(EmbeddedServer(folder / EMBEDDED_FOLDER))
        demo = Demo(folder, server.url, seconds, concurrency, signals)
        try:
            demo.loop(picture)
        finally:
            demo.stop()
        account = demo.account()
    demo.summarize(account)
    if kept or account.lost:
        print(f"Ledger, logs and the server's data are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(account, flush=True)
    # To stderr: programs find the account in the last line of stdout.
    print(_next(folder, account), file=sys.stderr)
    return account


class Demo:
    """The processes and the loop of one demo, on a running server."""

    def __init__(self, folder: Path, url: str, seconds: float | None, concurrency: int, signals: Sequence[int]) -> None:
        self._folder = folder
        self._seconds = seconds
        self._concurrency = concurrency
        self._signals = signals
        self._config = Config()
        self._config.redis.url = url
        jobs.use_extensions(self._config)
        self._client = Client(self._config)
        self._ledger = Ledger(folder)
        self._tally = Tally(folder)
        self._screen = Screen(Console())
        self._kill = Kill(KILL_SECONDS if seconds is None else seconds / 2)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._reported_at = 0.0
        self._address = ""
        self._orders = count(1)
        self._report: JobId[str] | None = None
        self._result = ""
        self._start = time.monotonic()

    def loop(self, picture: Path | None) -> None:
        """Run until the time is over and the queues are empty, or until no worker is left."""
        self._start_child("web", "web", "--port", "0")
        self._start_worker(1)
        self._start_worker(2)
        Deploys(self._config).mark("The demo begins")
        self._push_orders()  # at least once, however slow the machine is
        drain_until, last_signal = 0.0, 0
        while self._any_worker():
            frame = self._look("emptying the queues" if drain_until else "running")
            if not self._signals:
                self._kill_worker()
            if drain_until:
                if time.monotonic() > drain_until or len(self._signals) > last_signal or self._is_empty(frame.stats):
                    return
            elif self._signals or (self._seconds is not None and self._elapsed() >= self._seconds):
                drain_until, last_signal = time.monotonic() + DRAIN_SECONDS, len(self._signals)
                if picture is not None:
                    self._screen.save(frame, picture)
            elif frame.stats.enqueued < ENOUGH_WAITING:
                self._push_orders()
            time.sleep(TICK_SECONDS)

    def _push_orders(self) -> None:
        with context(caller_id="demo"):
            for _ in range(random.randint(1, MOST_ORDERS)):
                report = jobs.push_order(self._client, self._ledger, next(self._orders))
                self._report = self._report or report

    def stop(self) -> None:
        """Stop all processes; kill those that do not end in time."""
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            try:
                child.wait(STOP_SECONDS + 5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                child.stdin.close()
        self._client.close()
        self._screen.close()

    def account(self) -> Account:
        self._tally.read()
        dead = {entry.jid for entry in DeadSet(self._config)}
        self._result = str(self._report.info()) if self._report is not None else "not pushed"
        return self._tally.account(dead, self._stored())

    def summarize(self, account: Account) -> None:
        workers = [name for name in self._children if name != "web"]
        print(f"\n{len(self._tally.known)} jobs, run by {len(workers)} workers; {account.repeated} ran twice.")
        print(self._kill)
        print(f"The first report: {self._result}.")
        if account.lost or self._ended.issuperset(workers):
            for name in workers:
                print(f"Last lines of {name}:\n{self._last_lines(name, 5)}")

    # -- processes

    def _start_worker(self, number: int) -> None:
        queues = [word for queue in QUEUES for word in ("-q", queue)]
        limits = ["-c", str(self._concurrency), "-t", str(STOP_SECONDS - 2)]
        # --embedded: the last worker stops the server, even if the demo itself was killed.
        self._start_child(f"worker {number}", "worker", "--embedded", *queues, *limits, "-g", f"demo {number}")

    def _start_child(self, name: str, *words: str) -> None:
        """Start a command of this program, as a user would."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("OFFSIDER_")}
        environ |= {"OFFSIDER_REDIS_URL": self._config.redis.url, "OFFSIDER_LOG_FORMAT": "plain"}
        # The address is the first line of web.log. The workers' logs also keep what an earlier demo wrote.
        with self._log(name).open("wb" if name == "web" else "ab") as log:
            self._children[name] = subprocess.Popen(  # noqa: S603  # this program itself
                [sys.executable, "-m", "offsider", *words, "-r", jobs.__name__],
                stdin=subprocess.PIPE,  # closes when the demo ends, see `jobs.stop_with_the_demo`
                stdout=log,
                stderr=log,
                cwd=self._folder,  # with the ledger, and without a settings file of the user
                env=environ,
                start_new_session=True,  # Ctrl-C reaches the demo alone, which stops its children in order
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name.replace(' ', '-')}.log"

    def _last_lines(self, name: str, number: int) -> str:
        return "\n".join(self._log(name).read_text(errors="replace").splitlines()[-number:])

    def _any_worker(self) -> bool:
        """Report children that ended by themselves; return False when no worker is left."""
        for name, child in self._children.items():
            if child.poll() is not None and name not in self._ended:
                self._ended.add(name)
                self._event(f"{name} ended with code {child.returncode}: {self._last_lines(name, 1)}")
        return bool(self._children.keys() - self._ended - {"web"})

    def _kill_worker(self) -> None:
        victim = self._children["worker 1"]
        if "worker 1" not in self._ended and self._kill.is_due(self._elapsed(), victim, self._tally):
            self._ended.add("worker 1")
            self._event(self._kill.kill(self._elapsed(), victim, self._tally))
            self._start_worker(3)

    # -- state

    def _look(self, phase: str) -> Frame:
        """Read the ledger and the server, and show both."""
        self._tally.read()
        if recovered := self._kill.recovery(self._elapsed(), self._tally):
            self._event(recovered)
        self._report_failures()
        first_line, newline, _ = self._log("web").read_text(errors="replace").partition("\n")
        if newline and not self._address and first_line.startswith("offsider web: "):
            self._address = first_line.removeprefix("offsider web: ")
            self._event(f"the web UI is at {self._address}")
        end = f" of {self._seconds:g}" if self._seconds is not None and phase == "running" else ""
        ctrl_c = "stops the demo" if phase == "running" else "leaves the rest"
        frame = Frame(
            title=f"{phase}  {self._elapsed():.0f}{end} s",
            footer=f"[bold]{self._address}[/]  Ctrl-C {ctrl_c}  [dim]{self._config.redis.url}[/]",
            stats=Stats.read(self._config),
            tally=self._tally,
            workers={
                name: f"runs, pid {child.pid}" if child.poll() is None else f"ended with code {child.returncode}"
                for name, child in self._children.items()
            },
        )
        self._screen.show(self._elapsed(), frame)
        return frame

    def _report_failures(self) -> None:
        """Report failed runs by job, at most one event per job every two seconds."""
        if self._elapsed() - self._reported_at < FAILURES_SECONDS:
            return
        for name, number in (self._tally.failures - self._failures).items():
            self._event(f"{name} failed {counted(number, 'time')}")
        self._failures, self._reported_at = self._tally.failures.copy(), self._elapsed()

    def _event(self, text: str) -> None:
        self._screen.event(self._elapsed(), text)

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _is_empty(self, stats: Stats) -> bool:
        # The second look finds a job that changed its place during the first.
        return not (stats.enqueued or stats.scheduled or stats.retries or self._stored() or self._stored())

    def _stored(self) -> set[str]:
        """Jids of held jobs, and of those in queues, schedule, retry set and the private lists of workers."""
        redis = Installation.of(self._config).redis
        lists = redis.call("KEYS", redis.keys.every_working)
        running = [JobRecord(raw) for key in lists for raw in redis.call("LRANGE", key, 0, -1)]
        held = (HeldList(key, self._config) for key in HeldList.keys(self._config))
        waiting = chain(ScheduledSet(self._config), RetrySet(self._config), *Queue.all(self._config))
        return {record.jid for record in chain(waiting, running, *(entry.page(0, len(entry)) for entry in held))}


def _lock(folder: Path) -> int:
    """Lock the folder, because two demos in it would count each other's jobs; return the file descriptor."""
    import fcntl  # POSIX only; other commands run on Windows too

    descriptor = os.open(folder / "demo.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigurationError(f"another demo runs in {folder}; choose another --folder") from None
    return descriptor


def _next(folder: Path, account: Account) -> str:
    if account.lost:
        return f"next: please report the lost job, with the files in {folder}"
    path = os.path.relpath(sys.argv[0])
    program = path if path.endswith("bin/offsider") and not path.startswith("..") else "offsider"
    return (
        f"next: declare a job in jobs.py (docs/first-steps.md), then run\n"
        f"  {program} worker --embedded -r jobs.py\n"
        f"  REDIS_URL=unix://$PWD/{EMBEDDED_FOLDER}/server.sock {program} web"
    )
