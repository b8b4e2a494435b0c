"""A running worker: concurrent coroutines, unread output, a stop at any time."""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from offsider.core.gil import FREE_THREADED
from tests.process.stored import payload, private, push, push_raw, waiting
from tests.waiting import wait_for


def test_a_stop_during_the_startup_handlers_is_orderly(workers, stored, ledger):
    app = """
        import time
        from tests.process.ledger import note
        from tests.process.jobs import short

        def configure(config):
            @config.on("startup")
            def slow():
                print("starting up", flush=True)
                time.sleep(1.5)
            config.on("exit", lambda: note("exit"))
    """
    worker = workers.start(text=app, wait=False)
    worker.until_says("starting up")
    worker.send("TERM")
    assert worker.ended() == 0
    assert "Traceback" not in worker.output
    assert ledger.events() == ["exit"]
    assert stored.hlen("offsider:owners") == 0


UNKNOWN = 8_000


def resident_kilobytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def push_kinds(stored, name: str, first: int, count: int, **fields) -> None:
    jobs = [payload(f"{name}{number}", 1, **fields) for number in range(first, first + count)]
    for start in range(0, len(jobs), 1000):
        push_raw(stored, *(json.dumps(job).encode() for job in jobs[start : start + 1000]))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc (Linux)")
@pytest.mark.skipif(FREE_THREADED, reason="without the GIL, CPython collects garbage when memory has grown by a tenth")
@pytest.mark.timeout(240)
def test_undeclared_classes_leave_no_state_in_the_worker(workers, stored, ledger):
    worker = workers.start("-c", "4", environ={"OFFSIDER_WORKER_STRANDED_DAYS": "0"}, measured=False)
    sizes = []
    for part in range(4):
        push_kinds(stored, "Unknown", part * UNKNOWN // 4, UNKNOWN // 4, retry=False, soft_timeout="never", tags=7)
        wait_for(lambda: waiting(stored) == [] and private(stored) == [], 60)
        sizes.append(resident_kilobytes(worker.pid))
    wait_for(lambda: int(stored.get("stat:failed") or 0) == UNKNOWN, 30)
    # What stays of each class would show in every part; what a process allocates once does not.
    assert min(after - before for before, after in pairwise(sizes)) < 2_000, sizes
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    worker.stopped()


HEARTBEATS = 3
#: Three, and what a heartbeat writes. One more command a second exceeds it.
PER_SECOND = 3.8
#: Those of each second: the reader of the controls, the scheduler, and what a leader of services renews.
OFTEN = {"sunion", "exists", "getex", "pexpire", "expire", "evalsha"}
#: Commands of the test itself, and those by which replicas of a Cluster acknowledge writes.
NOT_OF_THE_WORKER = {"info", "config|resetstat", "replconf"}

APPLICATION = """
    from offsider import job

    @job
    def nothing() -> None: ...
"""


def commands(stored: redis.Redis) -> Counter[str]:
    """Return the number of calls of each command, including those of scripts."""
    calls = {name.removeprefix("cmdstat_"): stats["calls"] for name, stats in stored.info("commandstats").items()}
    return Counter({name: count for name, count in calls.items() if name not in NOT_OF_THE_WORKER})


def test_an_idle_worker_and_its_parent_send_three_commands_a_second(workers, stored):
    """The quietest time between two heartbeats counts: it has none of the commands of each minute.

    One worker of a fleet samples queues and looks for findings; here it is another one.
    """
    stored.set("offsider:turn:sampler", "another", ex=600)
    workers.start("-c", "5", text=APPLICATION)
    wait_for(lambda: commands(stored)["hset"] >= 2, 60, "two heartbeats")
    counts, rates = [commands(stored)], []
    for _ in range(HEARTBEATS):
        started, beats = time.monotonic(), counts[-1]["hset"]
        wait_for(lambda beats=beats: commands(stored)["hset"] > beats, 60, "the next heartbeat")
        counts.append(commands(stored))
        rates.append((counts[-1] - counts[-2]).total() / (time.monotonic() - started))
    sent = counts[-1] - counts[0]
    described = ", ".join(f"{count} {name}" for name, count in sent.most_common())
    assert min(rates) <= PER_SECOND, (rates, described)
    often = {name: count for name, count in sent.items() if count > 3 * HEARTBEATS}
    assert often.keys() <= OFTEN, described
    assert sent["pexpire"] <= HEARTBEATS * 3, described
