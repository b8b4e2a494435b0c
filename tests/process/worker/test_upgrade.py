"""Upgrade and rollback with kill -9: the commit before and this one share a server and lose no job.

The earlier revision is read from git. Its workers and clients run its own code with the dependencies of this one.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Locks, Unique
from offsider.inspector import Controls
from tests.process.ledger import Ledger
from tests.process.stored import private, sorted_set, waiting
from tests.process.workers import MEASURED, ROOT, Worker, Workers
from tests.waiting import wait_for

EARLIER = "HEAD~1"
THREADS = 4
#: 90 jobs for each thread: a worker is killed while some of them run.
PLAIN, OTHERS, DEAD, BLOCKING = 360, 20, 5, 4
APP = """
    import os
    import sys
    import time
    import offsider
    from offsider import Client, Config, current_job, job
    from offsider.ext.concurrency_limits import ConcurrencyLimits
    from offsider.ext.unique import Unique
    from tests.process.ledger import note

    SIDE = os.environ["SIDE"]
    note("imported", word=f"{SIDE} {offsider.__file__}")

    def configure(config):
        config.use(Unique())
        config.use(ConcurrencyLimits())

    def work(seconds):
        began = time.time()
        note("start", current_job().jid)
        time.sleep(seconds)
        note("end", current_job().jid, time.time() - began)

    @job(name="Plain")
    def plain(number):
        work(0.01)

    @job(name="Blocking")
    def blocking():
        '''Ends only where it has come after a kill or a stop.'''
        if current_job().interrupted_count:
            work(0)
        else:
            note("blocked", current_job().jid)
            time.sleep(60)

    @job(name="Failing", retry=5)
    def failing(number):
        if current_job().attempt < 2:
            raise RuntimeError("fails once")
        work(0.01)

    @job(name="Dying", retry=0)
    def dying(number):
        raise RuntimeError("goes to the dead set")

    @job(name="Scheduled")
    def scheduled(number):
        work(0.01)

    @job(name="Only", unique_for=600)
    def unique(side, number):
        work(0.01)

    @job(name="Limited", concurrency_limit=2)
    def limited(number):
        work(0.02)

    @job(name=f"Known-{SIDE}")
    def known(number):
        work(0.01)

    def push(kinds):
        config = Config()
        config.redis.url = os.environ["REDIS_URL"]
        configure(config)
        client = Client(config)
        for kind, count in (pair.split("=") for pair in kinds):
            declared = globals()[kind]
            for number in range(int(count)):
                args = {"unique": (SIDE, number), "blocking": ()}.get(kind, (number,))
                caller = declared.via(client)
                jid = caller.enqueue_in(number % 5, *args) if kind == "scheduled" else caller.enqueue(*args)
                note("pushed", jid, kind)

    if __name__ == "__main__":
        push(sys.argv[1:])
"""


@dataclass
class Side:
    """One of the two revisions: starts its workers, and pushes through its client."""

    name: str
    source: Path
    workers: Workers

    @property
    def environ(self) -> dict[str, str]:
        return {
            "SIDE": self.name,
            "PYTHONPATH": f"{self.source}{os.pathsep}{ROOT}",
            "OFFSIDER_WORKER_LIVENESS_SECONDS": "3",
            "OFFSIDER_WORKER_MAX_STRIKES": "0",  # else a job that three kills hit ends in the dead set
        }

    def start(self) -> Worker:
        """Start a worker; it runs some seconds later."""
        options = ("-c", str(THREADS), "-t", "1")
        return self.workers.start(*options, app="app", environ=self.environ, measured=False, wait=False)

    def push(self, **kinds: int) -> None:
        command = [sys.executable, "app.py", *(f"{kind}={count}" for kind, count in kinds.items())]
        ledger = {"REDIS_URL": self.workers.url, "TEST_LEDGER": str(self.workers.ledger.path)}
        environ = os.environ | self.environ | ledger
        environ.pop(MEASURED, None)  # else coverage counts the lines of the earlier revision too
        subprocess.run(command, cwd=self.workers.folder, env=environ, check=True, timeout=60)

    def push_all_kinds(self) -> None:
        self.push(
            blocking=BLOCKING,
            scheduled=OTHERS,
            failing=OTHERS,
            dying=DEAD,
            unique=OTHERS,
            limited=OTHERS,
            known=OTHERS,
            plain=PLAIN,
        )


@pytest.fixture(scope="module")
def earlier_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `src` of the earlier revision."""
    if shutil.which("git") is None:
        pytest.skip("needs git, to read an earlier revision")
    packed = subprocess.run(["git", "archive", EARLIER, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        reason = packed.stderr.decode(errors="replace").strip()
        pytest.skip(f"needs the commit before, which a shallow clone lacks (git fetch --unshallow): {reason}")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def ended_of(ledger: Ledger, kind: str) -> Callable[[], int]:
    """How many jobs of a kind have ended."""

    def ended() -> int:
        return len({note.jid for note in ledger.notes("pushed") if note.word == kind} & set(ledger.counts("end")))

    return ended


@pytest.mark.parametrize("direction", ["upgrade", "rollback"])
def test_two_revisions_side_by_side_lose_no_job_during_a_takeover(workers, stored, earlier_source, direction):
    ledger = workers.ledger
    workers.write(APP)
    earlier, present = Side("earlier", earlier_source, workers), Side("present", ROOT / "src", workers)
    before, after = (earlier, present) if direction == "upgrade" else (present, earlier)
    plain, known = ended_of(ledger, "plain"), ended_of(ledger, "known")

    leaving = [before.start() for _ in range(3)]
    leaving[0].until_running()
    joining = [after.start() for _ in range(2)]
    before.push_all_kinds()
    wait_for(lambda: plain() > PLAIN // 10)
    leaving[0].kill()  # like a machine failure: other workers have to find out

    # Both run, and both push.
    for worker in leaving[1:] + joining:
        worker.until_running()
    after.push_all_kinds()
    wait_for(lambda: plain() > PLAIN + PLAIN // 10)
    joining[0].kill()
    leaving[1].stopped()
    wait_for(lambda: known() == 2 * OTHERS, what="each revision has run the jobs that it alone knows")
    leaving[2].kill_alone()  # and its parent requeues its jobs

    # One revision is gone, and its clients still push.
    make_retries_due(stored)
    before.push(known=OTHERS, plain=PLAIN)
    wait_for(lambda: plain() == 3 * PLAIN, what="its jobs run in the other revision")
    wait_for(lambda: len(stranded(stored)) == OTHERS, what="those that only it knows wait")
    joining[1].kill_alone()

    # It is back.
    last = [before.start(), after.start()]
    pushed = {note.jid: note.word for note in ledger.notes("pushed")}
    run = {jid for jid, kind in pushed.items() if kind != "dying"}
    wait_for(lambda: make_retries_due(stored) and run <= set(ledger.counts("end")), what="every job has ended")
    wait_for(lambda: stored.zcard("dead") == 2 * DEAD)
    for worker in last:
        worker.until_running()
        worker.stopped()

    counts, kills = ledger.counts("end"), 4
    assert set(counts) == run, "lost, or run though nobody pushed it"
    assert sum(counts.values()) - len(counts) <= kills * THREADS
    assert sorted(job["jid"] for job in sorted_set(stored, "dead")) == sorted(
        jid for jid, kind in pushed.items() if kind == "dying"
    )
    assert waiting(stored) == private(stored) == sorted_set(stored, "retry") == sorted_set(stored, "schedule") == []
    assert most_at_once(ledger, {jid for jid, kind in pushed.items() if kind == "limited"}) <= 2
    assert {note.word for note in ledger.notes("imported")} == {
        f"{side.name} {side.source / 'offsider' / '__init__.py'}" for side in (earlier, present)
    }
    assert left_by_extensions(workers.url) == (0, 0)


def make_retries_due(stored) -> bool:
    """Retries wait up to ten seconds, by a draw."""
    stored.zadd("retry", dict.fromkeys(stored.zrange("retry", 0, -1), time.time()) or {"none": 0}, xx=True)
    return True


def stranded(stored) -> list[str]:
    return [job["jid"] for job in sorted_set(stored, "schedule") if "stranded_at" in job]


def most_at_once(ledger: Ledger, jids: set[str]) -> int:
    """How many of these jobs ran at one time; a run that was killed has no end, and is not counted."""
    ends = [(note.time, note.time - float(note.word)) for note in ledger.notes("end") if note.jid in jids]
    return max(sum(began <= at < end for end, began in ends) for _, at in ends)


def left_by_extensions(url: str) -> tuple[int, int]:
    """Locks of unique jobs, and slots of limited ones."""
    config = Config()
    config.redis.url = url
    config.use(Unique())
    config.use(ConcurrencyLimits())
    try:
        deadline = time.monotonic() + 60
        while True:
            left = len([*Locks(config)]), len(Controls(config).holders("Limited"))
            if left == (0, 0) or time.monotonic() > deadline:
                return left
    finally:
        Installation.of(config).close()
