"""Isolated jobs in real workers: crashes, limits, stops, and all that a job may do in its process."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from offsider import lookup, signal as give_signal
from offsider.config.default import set_default_config
from offsider.ext.results import Results
from tests.process.stored import push, sorted_set, waiting
from tests.process.workers import exists
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "6"}
APP = """
    import ctypes, logging, multiprocessing, os, resource, signal, subprocess, time
    from contextvars import ContextVar
    from offsider import Skip, SoftTimeout, configure_client, current_job, job, resumable, step, wait_for
    from offsider.ext.current_attributes import CurrentAttributes
    from offsider.ext.results import Results
    from tests.process.ledger import note

    forked, (woken, wakes) = [], os.pipe()
    tenant = ContextVar("tenant", default=None)

    @configure_client
    def _(config):
        config.use(CurrentAttributes(tenant))
        config.use(Results())
        config.on("fork", lambda: time.sleep(float(os.environ.get("BOOT_SECONDS", 0))))

    class Peculiar(Exception):
        def __init__(self, code, *, why):
            super().__init__(f"{code}: {why}")
            self.code = code

    def dive(depth):
        return dive(depth - 1) if depth else time.sleep(60)

    @job(name="Crash", isolated=True, retry=0)
    def crash(how):
        note("begun", current_job().jid, how)
        match how:
            case "SIGSEGV":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(7)
            case "loop in C":
                ctypes.pythonapi.PyBytes_FromStringAndSize  # loaded
                sum(range(10**13))
            case "recursion":
                dive(300)
            case "killed":  # from outside, as the kernel does when memory is short
                subprocess.run(["sh", "-c", "kill -KILL $PPID"])
                time.sleep(60)
            case "memory":
                resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
                bytearray(2**31)

    @job(name="Plain")
    def plain(number):
        note("plain", current_job().jid, number)

    @job(name="Isolated", isolated=True)
    def isolated(number=0):
        note("isolated", current_job().jid, f"{number} {os.getppid()}")

    grown = []

    @job(name="Grow", isolated=True)
    def grow(megabytes):
        note("isolated", current_job().jid)
        grown.append(bytearray(b"x") * (megabytes * 2**20))

    @job(name="Fail", isolated=True, retry=0)
    def fail():
        try:
            {}["missing"]
        except KeyError as error:
            raise Peculiar(7, why="on purpose") from error

    @job(name="Sleep", isolated=True, retry=0)
    def sleep(seconds, tidy=False, loses_handler=False):
        if loses_handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            note("begun", current_job().jid, os.getpid())
            time.sleep(seconds)
        except SoftTimeout:
            note("soft", current_job().jid)
            if not tidy:
                raise

    @job(name="Stubborn", isolated=True)
    def stubborn():
        note("begun", current_job().jid, os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)

    @job(name="All", isolated=True, keep_result=60)
    def everything():
        job = current_job()
        job.log["rows"] = 3
        job.progress(1, 2, "half")
        logging.getLogger("app").warning("from the child")
        with job.measure("db"):
            time.sleep(0.01)
        plain.enqueue(1)
        charge = step("charge", lambda: {"cents": 5})
        note("all", job.jid, f"{tenant.get()} {charge['cents']} {wait_for('paid', timeout=60)} {job.attempt}")
        return {"done": True}

    @job(name="Walk", isolated=True)
    def walk(count=0, seconds=0):
        for number in resumable(range(count or int(os.environ["ELEMENTS"]))):
            note("element", current_job().jid, number)
            time.sleep(0.05)
        time.sleep(seconds)

    @job(name="Wait", isolated=True, track=True)
    def wait():
        note("begun", current_job().jid, os.getpid())
        while not current_job().cancelled:
            time.sleep(0.01)
        note("cancelled", current_job().jid)
        raise Skip("cancelled")

    @job(name="Odd", isolated=True, retry=0)
    def odd(leaves=False):
        return Peculiar(7, why="a result") if leaves else lambda: None

    @job(name="Fork", isolated=True)
    def fork():
        forked.append(os.fork())
        forked[0] or os.read(woken, 1)  # and returns, as a fork must not

    @job(name="Reap", isolated=True)
    def reap():
        os.write(wakes, b"x")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.apply(abs, [-5])
        note("reaped", current_job().jid, os.waitpid(forked[0], 0)[1] >> 8)  # Pool has ended its process by SIGTERM
"""


@pytest.fixture(autouse=True)
def _default(config):
    config.use(Results())
    before = set_default_config(config)
    yield
    set_default_config(before)


def dead(stored) -> dict[str, str]:
    return {job["jid"]: f"{job['error_class']}: {job['error_message']}" for job in sorted_set(stored, "dead")}


def test_a_crash_fails_its_job_alone(workers, stored, ledger):
    ways = ("SIGSEGV", "exit", "loop in C", "memory", "killed")
    crashes = {}
    for number in range(1000):
        push(stored, "Plain", number)
        if number % 20 == 0:
            how = ways[number // 20 % 5]
            limit = {"hard_timeout": 1.0} if how == "loop in C" else {}
            crashes[push(stored, "Crash", how, retry=0, **limit)] = how
    worker = workers.start("-c", "10", text=APP, environ=FAST)
    pid = worker.pid
    wait_for(lambda: len(dead(stored)) == 50 and len(ledger.notes("plain")) >= 1000, 120)
    assert set(ledger.counts("begun").values()) == {1}  # the limit may interrupt a loop before its note
    assert set(ledger.counts("plain").values()) == {1}
    reasons = {
        "SIGSEGV": "offsider.core.errors.ProcessCrashed: the process of the job was killed by SIGSEGV",
        "exit": "offsider.core.errors.ProcessCrashed: the process of the job ended with code 7",
        "loop in C": "offsider.core.errors.HardTimeout: the job exceeded its hard limit of 1 s (hard_timeout)",
        "memory": "MemoryError: ",
        "killed": "offsider.core.errors.ProcessCrashed: the process of the job was killed by SIGKILL, perhaps because "
        "the system had no more memory",
    }
    assert dead(stored) == {jid: reasons[how] for jid, how in crashes.items()}
    assert worker.pid == pid
    assert worker.output.count("running <Capsule") == 1
    assert {note.pid for note in ledger.notes("plain")} == {pid}
    assert "stopped" in worker.stopped()


def test_a_job_fails_with_the_error_and_the_lines_of_its_process(workers, stored, ledger):
    jid = push(stored, "Fail", retry=0, backtrace=True)
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: dead(stored))
    assert dead(stored)[jid].endswith(".Peculiar: 7: on purpose")
    worker.until_says("direct cause")
    assert "in fail\n" in worker.output
    assert "{}[" in worker.output


def test_logs_context_steps_pushes_progress_and_results_work(workers, stored, ledger):
    jid = push(stored, "All", cattr={"tenant": "acme"}, keep_result=60, track=True)
    worker = workers.start("-c", "2", text=APP, environ=FAST)
    wait_for(lambda: sorted_set(stored, "schedule"))
    assert give_signal(jid, "paid", "in full")
    wait_for(lambda: ledger.notes("all"))
    assert ledger.words("all") == ["acme 5 in full 1"]
    wait_for(lambda: len(ledger.notes("plain")) == 2)
    output = worker.until_says(": done", times=3)
    assert "from the child" in output
    assert "rows=3" in output
    assert "db_duration_s=" in output
    wait_for(lambda: not stored.exists(f"offsider:steps:{jid}"))
    state = stored.hgetall(f"offsider:results:job:{jid}")
    assert json.loads(state[b"result"]) == {"done": True}
    assert b"half" in state[b"progress"]


def test_a_hard_limit_interrupts_a_system_call(workers, stored, ledger):
    jid = push(stored, "Sleep", 60, hard_timeout=2.0, retry=0)
    tidy = push(stored, "Sleep", 60, True, soft_timeout=2.0, retry=0)
    worker = workers.start("-c", "2", text=APP, environ=FAST)
    wait_for(lambda: dead(stored) and ledger.notes("soft"))
    assert "HardTimeout" in dead(stored)[jid]
    assert [note.jid for note in ledger.notes("soft")] == [tidy]
    worker.until_says(": done")
    pids = ledger.words("begun")
    push(stored, "Isolated")
    wait_for(lambda: ledger.notes("isolated"))
    assert str(ledger.notes("isolated")[0].pid) in pids  # neither child was killed
    worker.stopped()


def test_a_stop_interrupts_isolated_jobs_and_leaves_no_process(workers, stored, ledger):
    jids = {push(stored, "Sleep", 60), push(stored, "Stubborn")}
    worker = workers.start("-c", "2", "-t", "1", text=APP, environ=FAST)
    wait_for(lambda: len(ledger.notes("begun")) == 2)
    worker.stopped()
    assert {job["jid"] for job in waiting(stored)} == jids
    wait_for(lambda: not any(exists(int(pid)) for pid in ledger.words("begun")))
    assert not dead(stored)


@pytest.mark.parametrize("jobs", [[(60, False, True)], [(0, False, True), (60,)]])
def test_a_stop_interrupts_a_job_whose_process_has_lost_our_handler(workers, stored, ledger, jobs):
    jids = [push(stored, "Sleep", *job, retry=0) for job in jobs]
    worker = workers.start("-c", "1", "-t", "0", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("begun", jid=jids[-1]))
    worker.stopped()
    assert [job["jid"] for job in waiting(stored)] == jids[-1:]


@pytest.mark.parametrize("job, boot_seconds", [(("Sleep", 300), "1.5"), (("Walk", 3, 300), "0")])
def test_a_soft_limit_holds_before_the_first_run_and_after_an_iteration(workers, stored, ledger, job, boot_seconds):
    jid = push(stored, *job, soft_timeout=1, retry=0)
    workers.start("-c", "1", text=APP, environ=FAST | {"BOOT_SECONDS": boot_seconds})
    wait_for(lambda: "SoftTimeout" in dead(stored).get(jid, ""))


def test_forks_of_a_job_neither_end_a_run_nor_survive_a_signal(workers, stored, ledger):
    push(stored, "Fork")
    push(stored, "Reap")
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.words("reaped") == ["70"])
    assert "(Fork): a forked child" in worker.output


def test_the_children_of_a_killed_worker_end(workers, stored, ledger):
    push(stored, "Crash", "loop in C")
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    (begun,) = wait_for(lambda: ledger.notes("begun"))
    os.kill(worker.pid, signal.SIGKILL)
    wait_for(lambda: not exists(begun.pid))


def test_an_iteration_continues_after_a_stop_and_a_cancellation_reaches_a_job(workers, stored, ledger):
    jid = push(stored, "Walk")
    worker = workers.start("-c", "1", text=APP, environ=FAST | {"ELEMENTS": "10_000"})  # none ends before the stop
    wait_for(lambda: len(ledger.notes("element")) >= 5)
    worker.stopped()
    assert [job["jid"] for job in waiting(stored)] == [jid]
    elements = len(ledger.notes("element")) + 20
    workers.start("-c", "2", text=APP, environ=FAST | {"ELEMENTS": str(elements)})
    wait_for(lambda: not stored.exists(f"it-{jid}"))
    assert ledger.words("element") == [str(number) for number in range(elements)]


def test_a_job_sees_its_cancellation(workers, stored, ledger, config):
    jid = push(stored, "Wait", track=True)
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("begun"))
    lookup(jid).cancel()
    wait_for(lambda: ledger.notes("cancelled", jid=jid))


def test_a_child_is_replaced_after_its_jobs(workers, stored, ledger):
    for number in range(6):
        push(stored, "Isolated", number)
    workers.start("-c", "1", text=APP, environ=FAST | {"OFFSIDER_WORKER_MAX_JOBS_PER_CHILD": "2"})
    wait_for(lambda: len(ledger.notes("isolated")) == 6)
    assert set(Counter(note.pid for note in ledger.notes("isolated")).values()) == {2}


def test_a_child_that_has_grown_is_replaced(workers, stored, ledger):
    jobs = [("Isolated", 1), ("Isolated", 2), ("Grow", 300), ("Isolated", 3), ("Isolated", 4)]
    jids = [push(stored, *job) for job in jobs]
    workers.start("-c", "1", text=APP, environ=FAST | {"OFFSIDER_WORKER_MEMORY_PER_CHILD_MB": "250"})
    wait_for(lambda: len(ledger.notes("isolated")) == len(jids))
    assert [note.jid for note in ledger.notes("isolated")] == jids
    first, *same, another, last = [note.pid for note in ledger.notes("isolated")]
    assert set(same) == {first}
    assert another == last != first
    wait_for(lambda: not exists(first))


def until_dumped(worker, pattern):
    """Ask for dumps until the last one is as expected: the job may not have come that far, or it is not yet written."""

    def dumped():
        worker.send("TTIN")
        time.sleep(0.5)
        return re.fullmatch(pattern, worker.output.rpartition("isolated job tid=")[2])

    wait_for(dumped)


def test_the_stack_of_an_isolated_job_is_shown_even_in_c(workers, stored, ledger):
    jid = push(stored, "Crash", "loop in C", retry=0)
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("begun"))
    until_dumped(worker, rf"\w+ Crash jid={jid}\n    File .*, in crash\n      sum\(range\(10\*\*13\)\)\n")


def test_the_stack_of_a_deep_recursion_has_its_innermost_frames(workers, stored, ledger):
    push(stored, "Crash", "recursion", retry=0)
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("begun"))
    until_dumped(worker, r".*\n(    File .*, in dive\n(      .*\n)?){100,}")


def test_an_isolated_capsule_runs_all_its_jobs_in_children(workers, stored, ledger):
    push(stored, "Plain", 1)
    worker = workers.start("-c", "1", text=APP, environ=FAST | {"OFFSIDER_WORKER_ISOLATED": "true"})
    (noted,) = wait_for(lambda: ledger.notes("plain"))
    assert noted.pid != worker.pid


def test_a_lost_fork_server_replaces_the_worker_and_fails_no_job(workers, stored, ledger):
    push(stored, "Isolated", 1)
    worker = workers.start("-c", "1", "-p", "1", text=APP, environ=FAST)
    (first,) = wait_for(lambda: ledger.notes("isolated"))
    os.kill(int(first.word.split()[1]), signal.SIGKILL)
    wait_for(lambda: not exists(first.pid))
    jid = push(stored, "Isolated", 2)
    wait_for(lambda: ledger.notes("isolated", jid=jid))
    assert "fork server of isolated jobs has ended" in worker.output, worker.output


def test_bad_jobs_fail_with_one_clear_message(workers, stored, ledger):
    jids = [push(stored, "Odd", number > 0, retry=0) for number in range(21)]
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: len(dead(stored)) == len(jids))
    assert "returned an object that cannot leave its process: function" in dead(stored)[jids[0]]
    assert "Odd is isolated, and its worker cannot load what it returned" in dead(stored)[jids[1]]
    assert len([*Path(f"/proc/{worker.pid}/fd").iterdir()]) < 2 * len(jids)


@pytest.mark.parametrize(
    "text, message",
    [
        ("async def slow(): ...", "slow is isolated, so it must be a plain function"),
        (
            "def slow(): ...\nfrom threading import *\nThread(target=Event().wait, name='mine', daemon=True).start()",
            "has started threads (mine)",
        ),
    ],
)
def test_a_worker_refuses_what_cannot_be_isolated(workers, text, message):
    worker = workers.start("-c", "1", text=f"from offsider import job\n@job(isolated=True)\n{text}", wait=False)
    assert worker.ended() == 1
    assert message in worker.output
