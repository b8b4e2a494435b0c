"""The lines of the log about jobs: each format, levels per job, and silence on request."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.process.stored import payload, private, push, push_raw, sorted_set, waiting
from tests.waiting import wait_for

APP = """
    import logging
    from offsider import current_job, job

    log = logging.getLogger("offsider")

    @job(name="Talks")
    def talks(breaks):
        log.debug("the details")
        log.info("the news")
        current_job().log["rows"] = 7
        if breaks:
            raise ValueError("broken")

    @job(name="Sells")
    async def sells():
        logging.getLogger("shop").info("sold", extra={"pieces": 3})
"""
PREFIX = r"INFO  \d{4}-\d\d-\d\dT[\d:.]+Z pid=\d+ tid=\w+ "


def run(workers, stored, *jids_wanted, **environ):
    worker = workers.start("-c", "1", text=APP, wait=False, environ=environ)
    wait_for(lambda: stored.hlen("offsider:owners") == 1)

    def all_ran() -> bool:  # read in this order: a requeued job moves from the list to its queue
        return not list(stored.scan_iter("offsider:working:*")) and stored.llen("queue:default") == 0

    wait_for(lambda: stored.llen("queue:default") == 0)
    wait_for(lambda: all_ran() and all_ran())
    return worker.stopped()


def test_each_job_has_a_line_at_its_start_and_its_end(workers, stored):
    fine, broken = push(stored, "Talks", False, tags=["a", "b"]), push(stored, "Talks", True)
    selling = push(stored, "Sells")
    loud = push(stored, "Talks", False, log_level="debug")
    silent = push(stored, "Talks", False, log_level="error")
    printed = run(workers, stored)
    assert re.search(f"^{PREFIX}jid={fine} class=Talks tags=a,b: start$", printed, re.MULTILINE)
    assert re.search(f"^{PREFIX}jid={fine} class=Talks tags=a,b: the news$", printed, re.MULTILINE)
    own = f"^{PREFIX}jid={selling} class=Sells logger=shop queue=default pieces=3: sold$"
    assert re.search(own, printed, re.MULTILINE)
    done = rf"^{PREFIX}jid={fine} class=Talks tags=a,b rows=7 elapsed=[\d.]+: done$"
    assert re.search(done, printed, re.MULTILINE)
    assert re.search(rf"^{PREFIX}jid={broken} class=Talks rows=7 elapsed=[\d.]+: fail$", printed, re.MULTILINE)
    assert re.findall("jid=(.*) class=Talks: the details", printed) == [loud]
    assert silent not in printed


def test_a_killed_worker_loses_only_the_most_recent_lines(workers, stored):
    app = """
        import os, signal, time
        from pathlib import Path
        from offsider import current_job, job

        @job(name="Fine")
        def fine(): pass

        @job(name="Deadly")
        def deadly():
            while f"jid={current_job().jid} " not in Path("worker-0.log").read_text():  # no longer recent
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    fine, deadly = push(stored, "Fine"), push(stored, "Deadly")
    worker = workers.start("-c", "1", text=app, wait=False)
    assert worker.ended() == 128 + signal.SIGKILL
    assert re.findall(rf"jid={fine} .*: (\w+)$", worker.output, re.MULTILINE) == ["start", "done"]
    assert re.findall(rf"jid={deadly} .*: (\w+)$", worker.output, re.MULTILINE) == ["start"]


CHAIN = """
    import asyncio
    from offsider import bind_context, context, current_job, job

    @job(name="Parent")
    def parent(secret):
        with current_job().measure("db"):
            bind_context(project="p")
        AsyncChild.using(retry=1).enqueue()
        child_again.enqueue_many([()])

    @job(name="AsyncChild")
    async def AsyncChild():
        with current_job().measure("redis"):
            await asyncio.gather(measured(), measured())
        if current_job().attempt == 1:
            raise LookupError("not yet")

    async def measured():
        with current_job().measure("api"):
            await asyncio.sleep(0)

    @job(name="GrandChild")
    def child_again():
        with context(step=2):
            current_job().log["severity"] = "forged"
"""


def test_json_lines_carry_the_origin_from_job_to_job(workers, stored):
    stamped = {"meta.user": "ann", "meta.caller_id": "OrdersController#create", "correlation_id": "c1"}  # as Ruby does
    jid = push(stored, "Parent", "hidden", **stamped, created_at=1_795_216_780_652, enqueued_at=1_795_216_780.652)
    worker = workers.start("-c", "2", text=CHAIN, wait=False, environ={"OFFSIDER_LOG_FORMAT": "json"})
    [retry] = wait_for(lambda: stored.zrange("retry", 0, -1))
    stored.zadd("retry", {retry: 0})  # due now
    worker.until_says('"job_status": "done"', times=3)
    printed = worker.stopped()

    lines = [json.loads(line) for line in printed.splitlines()]
    assert "hidden" not in printed
    assert all({"time", "severity", "pid", "tid", "message"} <= set(line) for line in lines)
    assert {line["severity"] for line in lines} <= {"INFO", "WARN"}
    ends = {(line["class"], line["attempt"]): line for line in lines if line.get("job_status") in {"done", "fail"}}
    parent, first, second = ends["Parent", 1], ends["AsyncChild", 1], ends["AsyncChild", 2]
    grandchild = ends["GrandChild", 1]
    assert (parent["jid"], parent["meta.caller_id"], parent["meta.project"]) == (jid, stamped["meta.caller_id"], "p")
    assert parent["scheduling_latency_s"] > 0
    for child in (first, second, grandchild):
        assert (child["meta.user"], child["meta.project"], child["meta.caller_id"]) == ("ann", "p", "Parent")
    assert {line["correlation_id"] for line in ends.values()} == {"c1"}
    assert (first["job_status"], first["error_class"], first["jid"]) == ("fail", "LookupError", second["jid"])
    assert "retry_count" not in first
    assert (second["retry_count"], second["job_status"]) == (0, "done")
    assert {"db_duration_s", "duration_s", "cpu_s", "completed_at"} <= set(parent)
    assert {"redis_duration_s", "api_duration_s"} <= set(first)
    starts = [line for line in lines if line.get("job_status") == "start"]
    assert len(starts) == 4
    assert not any({"duration_s", "completed_at"} & set(line) for line in starts)


JOBS = 3000
# Standard output and error are a pipe of which the worker itself holds the only other end.
UNREAD = (
    "import os, sys\n"
    "reading, writing = os.pipe()\n"
    "os.dup2(writing, 1)\n"
    "os.dup2(writing, 2)\n"
    "os.dup2(reading, 99)\n"
    "os.set_inheritable(99, True)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'offsider', 'worker', *sys.argv[1:]])\n"
)
COMMAND = (sys.executable, "-c", UNREAD)


def push_many(stored, count: int) -> list[str]:
    jobs = [payload("Short", number) for number in range(count)]
    push_raw(stored, *(json.dumps(job).encode() for job in jobs))
    return [job["jid"] for job in jobs]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads a pipe of the worker (Linux)")
def test_a_worker_with_an_unread_log_runs_and_stops(workers, stored, ledger):
    worker = workers.start("-c", "4", "--processes", "1", command=COMMAND, wait=False, measured=False)
    jids = push_many(stored, JOBS)
    wait_for(lambda: len(ledger.notes("end")) == JOBS, 90)
    assert set(ledger.counts("end").values()) == {1}
    assert set(ledger.counts("end")) == set(jids)
    wait_for(lambda: private(stored) == [])
    worker.send("TERM")
    assert worker.ended() == 0
    assert waiting(stored) == sorted_set(stored, "retry") == []
