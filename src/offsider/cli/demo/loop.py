"""The course of the demo.

1. Start the server, two workers and the web UI.
2. Four times a second, push orders. In the middle, kill a worker while it runs jobs, and start another one.
3. After ``--seconds`` or Ctrl-C, stop the workers. Compare the ledger with the jobs that are stored, and print the
   account.
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
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path

from offsider.cli.demo import jobs
from offsider.cli.demo.ledger import Account, Ledger, Tally
from offsider.cli.options import EMBEDDED_FOLDER
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.embedded import EmbeddedServer
from offsider.inspector import DeadSet, JobRecord, Queue, RetrySet, ScheduledSet, Stats

TICK_SECONDS = 0.25
KILL_SECONDS = 15.0  # without --seconds
STOP_SECONDS = 15
MAX_ORDERS = 12  # per tick, so that the queues fill and empty
MAX_WAITING = 400
# --embedded: the last worker stops the server, even if the demo itself was killed.
WORKER = ("worker", "--embedded", "-t8", "-qorders,4", "-qstock,3", "-qpayments,3", "-qlabels,1", "-qreports,1")


def run(kept: Path | None = None, *, seconds: float | None = None) -> Account:
    """Run the demo, print the account of all jobs, and return it.

    Args:
        kept: a new folder for server, ledger and logs; a temporary one by default.
        seconds: time until the end; None for until Ctrl-C.
    """
    folder = Path(tempfile.mkdtemp(prefix="offsider-demo-")) if kept is None else kept.absolute()
    folder.mkdir(parents=True, exist_ok=kept is None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with EmbeddedServer(folder / EMBEDDED_FOLDER) as server:
        demo = Demo(folder, server.url)
        with suppress(KeyboardInterrupt), closing(demo):
            demo.loop(seconds)
        account = demo.account()
    if kept is None and not account.lost:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"Ledger, logs and the server's data are in {folder}")
    print(account, flush=True)
    # To stderr: programs find the account in the last line of stdout.
    print("next: declare a job and run it, see docs/first-steps.md", file=sys.stderr)
    return account


class Demo:
    """The processes and the loop of one demo, on a running server."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._config = Config()
        self._config.redis.url = url
        self._ledger = Ledger(folder)
        self._tally = Tally(folder)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._victim = 0
        self._start = time.monotonic()

    def loop(self, seconds: float | None) -> None:
        """Push orders and kill a worker, until the time is over or no worker is left."""
        self._start_child("web", "web", "--port", "0")
        self._start_child("worker-1", *WORKER)
        self._start_child("worker-2", *WORKER)
        client, orders = Client(self._config), count(1)
        kill_at = KILL_SECONDS if seconds is None else seconds / 2
        while (seconds is None or self._elapsed() < seconds) and self._any_worker():
            self._tally.read()
            stats = Stats.read(self._config)
            if stats.enqueued < MAX_WAITING:
                for _ in range(random.randint(1, MAX_ORDERS)):
                    jobs.push_order(client, self._ledger, next(orders))
            if not self._victim and self._elapsed() >= kill_at:
                self._kill_worker()
            if int(self._elapsed()) > int(self._elapsed() - TICK_SECONDS):
                self._say(f"waiting {stats.enqueued}, processed {len(self._tally.done)}, dead {stats.dead}")
            time.sleep(TICK_SECONDS)

    def close(self) -> None:
        """Stop all processes."""
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            child.communicate(timeout=STOP_SECONDS)

    def account(self) -> Account:
        """Compare the ledger with the server."""
        self._tally.read()
        left = len(self._tally.running_in(self._victim))
        self._say(f"of the killed worker's jobs, {left} did not run again" if self._victim else "no worker was killed")
        redis = Installation.of(self._config).redis
        lists = redis.call("KEYS", redis.keys.every_working)
        claimed = [JobRecord(raw) for key in lists for raw in redis.call("LRANGE", key, 0, -1)]
        stored = chain(ScheduledSet(self._config), RetrySet(self._config), *Queue.all(self._config), claimed)
        dead = {entry.jid for entry in DeadSet(self._config)}
        return self._tally.account(dead, {record.jid for record in stored})

    def _start_child(self, name: str, *words: str) -> None:
        """Start a command of this program, as a user would."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("OFFSIDER_")}
        with (self._folder / f"{name}.log").open("wb") as log:
            self._children[name] = subprocess.Popen(  # noqa: S603  # this program itself
                [sys.executable, "-m", "offsider", *words, "-r", jobs.__name__],
                stdin=subprocess.PIPE,  # closes when the demo ends, see `jobs.stop_with_the_demo`
                stdout=None if name == "web" else log,  # the web UI prints its address
                stderr=log,
                cwd=self._folder,  # with the ledger, and without a settings file of the user
                env=environ | {"OFFSIDER_REDIS_URL": self._config.redis.url},
                start_new_session=True,  # Ctrl-C reaches the demo alone, which stops its children in order
            )

    def _any_worker(self) -> bool:
        """Report children that ended by themselves; return False when no worker is left."""
        for name, child in list(self._children.items()):
            if child.poll() is not None:
                end = (self._folder / f"{name}.log").read_text(errors="replace")[-1000:]
                self._say(f"{name} ended with code {child.returncode}; the end of its log:\n{end}")
                del self._children[name]
        return any(name != "web" for name in self._children)

    def _kill_worker(self) -> None:
        """Kill worker 1, as soon as it runs jobs: the death of an idle worker would show nothing."""
        parent = self._children.get("worker-1")
        victim = 0 if parent is None else self._tally.worker_in(parent.pid)
        if parent is None or not victim:
            return
        os.kill(victim, signal.SIGKILL)
        parent.wait()
        del self._children["worker-1"]
        self._tally.read()  # its last lines
        self._victim = victim
        self._say(f"worker-1 was killed with -9 while it ran {len(self._tally.running_in(victim))} jobs")
        self._start_child("worker-3", *WORKER)

    def _say(self, text: str) -> None:
        print(f"{self._elapsed():6.1f} s  {text}", flush=True)

    def _elapsed(self) -> float:
        return time.monotonic() - self._start
